"""What the store keeps beside conversations: leases, documents, usage, reminders, calibrations."""
