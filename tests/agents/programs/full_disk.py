"""A session of Claude Code while the disk of its user's store is full, and one after that."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.agents.coding_agents import ClaudeCode
from tests.agents.memory import Memory
from tests.agents.model_service import model_service
from tests.agents.test_hooks import ANSWER, LINE, OUTCOME, QUESTION, UNRELATED
from tests.small_disk import fill


def main(data: Path) -> None:
    """Run the sessions in the home whose data directory is the small disk."""
    with model_service() as model:
        agent = ClaudeCode(data.parents[1], model)
        agent.configure()
        memory = Memory(agent)
        memory.connect()
        agent.turn(LINE, says=OUTCOME)
        memory.wait_for(LINE, OUTCOME)

        filler = data / "filler"
        fill(filler)
        full = agent.turn(QUESTION, says=ANSWER)
        stored_while_full = [each["content"] for each in memory.wait_for_messages(2)]

        filler.unlink()
        later = agent.turn(UNRELATED[0], says=ANSWER, resumes=True)
        stored = [each["content"] for each in memory.wait_for_messages(6)]
        memory.run("engine", "stop")
    shown = {
        "answers": [full.answer, later.answer],
        "stored while full": stored_while_full,
        "stored": stored,
    }
    sys.stdout.write(json.dumps(shown))


if __name__ == "__main__":
    main(Path(sys.argv[1]).parent)
