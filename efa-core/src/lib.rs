//! Safe, zero-cost objects over libfabric.
