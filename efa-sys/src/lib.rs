//! Raw libfabric bindings.
