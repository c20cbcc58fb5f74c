//! Nothing: the test is all there is.
