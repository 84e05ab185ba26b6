-- The second wall between tenants (docs/decisions/0044): of every table that says whose a row is, a connection sees and
-- writes the rows of the tenant that its variable names, all of them where that is '*' (the operator), and none where it is
-- not set. FORCE, or the owner would see everything. The variable is read once a query, not once a row, and CASE keeps the
-- planner from guessing that few rows are left.
DO $$
DECLARE
    walled TEXT;
BEGIN
    FOREACH walled IN ARRAY ARRAY[
        'accounts', 'api_keys', 'audit', 'blob_uses', 'blobs', 'branches', 'canvases', 'conversations', 'documents',
        'events', 'forgetting', 'leases', 'links', 'model_calls', 'provider_keys', 'quotes', 'recall_branches',
        'recall_conversations', 'receipts', 'reminders', 'schedules', 'sign_ins'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', walled);
        EXECUTE format($policy$
            CREATE POLICY everthread_tenant ON %I USING (
                CASE (SELECT nullif(current_setting('everthread.tenant', true), ''))
                    WHEN '*' THEN true WHEN tenant THEN true ELSE false END)
            $policy$, walled);
    END LOOP;
END $$;
