"""What tests and benchmarks need around Everthread: servers to talk to, builders and fakes."""
