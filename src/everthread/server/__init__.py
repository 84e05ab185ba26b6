"""The service: who calls it (`identity`), and the providers' keys of its tenants (`vault`)."""
