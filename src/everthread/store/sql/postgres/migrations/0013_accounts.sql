-- A placeholder: the accounts of the service come with this number.
SELECT 1;
