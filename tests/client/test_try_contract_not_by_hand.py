from tests.client.suites import through


through(globals(), "contract.test_not_by_hand", but={})
