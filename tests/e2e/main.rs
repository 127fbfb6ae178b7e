//! End-to-end tests: the programs as a user runs them, two real processes over real providers.
//!
//! All of them are one binary, so that the programs are linked against once. Each module is one topic and each
//! test is named for the behaviour that it holds the programs to; `harness` says how they are run.

mod harness;

mod cli;
mod data;
mod death;
mod files;
mod formats;
mod interrupt;
mod library;
mod limits;
mod meeting;
mod network;
mod selection;
mod silence;
mod strangers;
