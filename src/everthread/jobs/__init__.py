"""Work that is done beside the conversation: `worker` says when, `memory` gives it memory's jobs."""
