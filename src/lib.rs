//! leanburn facade
