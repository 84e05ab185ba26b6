"""Work that is done beside the conversation: `worker` says when. What there is to do, `memory` says."""
