"""Short ways to say what is captured in a test."""

from __future__ import annotations

from engram.model.capture import CapturedDraft, CaptureRequest
from engram.model.conversation import ConversationDraft


def session(*ids: str, name: str = "s1") -> CaptureRequest:
    """Return a capture of messages that say their own ids."""
    return CaptureRequest(
        source="claude",
        session=name,
        conversation=ConversationDraft(title="Ferry", project="harbour", metadata={"cwd": "/srv"}),
        messages=tuple(
            CapturedDraft(role="user", content=f"said {each}", original_id=each) for each in ids
        ),
    )
