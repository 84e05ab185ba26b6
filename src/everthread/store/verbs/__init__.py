"""The log's verbs by subject, one object for each: `log.leases`, `log.documents` …"""
