from tests.client.suites import through


through(globals(), "contract.test_own_ids", but={})
