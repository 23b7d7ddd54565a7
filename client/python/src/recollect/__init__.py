"""Client of Recollect, a long-context memory service: see README.md."""

from recollect.aio import AsyncClient, AsyncGeneration, AsyncSession
from recollect.client import Client, Generation, Session
from recollect.errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    RecollectError,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from recollect.types import (
    Backup,
    Candidate,
    Candidates,
    Document,
    Done,
    Event,
    GenerateArguments,
    Hit,
    Message,
    Options,
    Progress,
    Result,
    Retrieval,
    Saved,
    Scores,
    SessionInfo,
    TokenLogprobs,
    Tokens,
    UnfinishedIngest,
    Usage,
)

__all__ = [
    "Aborted", "AlreadyExists", "AsyncClient", "AsyncGeneration", "AsyncSession", "Backup", "Cancelled",
    "Candidate", "Candidates",
    "Client", "DataLoss", "DeadlineExceeded", "Document", "Done", "Event", "FailedPrecondition",
    "GenerateArguments", "Generation", "Hit", "Internal", "InvalidArgument", "Message", "NotFound", "Options", "OutOfRange",
    "PermissionDenied", "Progress", "RecollectError", "ResourceExhausted", "Result", "Retrieval", "Saved", "Scores",
    "Session", "SessionInfo", "TokenLogprobs", "Tokens", "Unauthenticated", "Unavailable", "Unimplemented",
    "UnfinishedIngest", "Usage",
]
