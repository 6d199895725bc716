"""Questions to a person and their answers: each about one action, used once, not forever."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from secrets import token_hex

from sqlalchemy import Connection, Engine, Row, or_, select, update

from contracts.errors import ApprovalDecided, ApprovalNotFound, OptionInvalid
from contracts.json import canonical_json
from policy.database import read_transaction, write_transaction
from policy.denial_json import denial_from_json, denial_to_json
from policy.log.events import Draft
from policy.plan.approval_request import ApprovalReply, ApprovalRequest, Approver
from policy.plan.plan_log import Append
from policy.tables import approvals
from policy.types import APPROVAL_TTL_S, Approval, ApprovalStatus


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class Approvals:
    """All approvals, in the database. What becomes of each is an event, too."""

    engine: Engine
    append: Append
    ttl_s: float = APPROVAL_TTL_S
    now: Callable[[], datetime] = _now

    @property
    def approver(self) -> Approver:
        """Asks whoever reads `harness approvals`, and waits for nobody."""
        return Approver(ask=self.ask, consume=self.consume)

    def ask(self, question: ApprovalRequest) -> ApprovalReply:
        """What was decided about this action of this run; the question is kept if it is new."""
        with self._changing() as connection:
            found = _latest(connection, question)
            asked = found is None
            if found is None:
                found = self._add(connection, question)
        if asked:
            self._tell(_approval(found), "pending")
        approval = _approval(found)
        match approval.status:
            case "approved" | "denied":
                who, why = approval.decided_by or "", approval.reason
                said = f"{who}: {why}" if why else f"{approval.status} by {who}"
                return ApprovalReply(
                    status=approval.status, by=who, reason=said, approval=approval.id
                )
            case _:
                said = f"approval {approval.id} waits"
                return ApprovalReply(status="waiting", reason=said, approval=approval.id)

    def is_known(self, question: ApprovalRequest) -> bool:
        """Whether this action of this run was asked about before, and that still counts."""
        with read_transaction(self.engine) as connection:
            return _latest(connection, question) is not None

    def consume(self, question: ApprovalRequest) -> bool:
        """Use up the approval of this action; False when there is none any more."""
        with self._changing() as connection:
            found = _latest(connection, question)
            if found is None or found.status != "approved":
                return False
            used = {"status": "used", "used_at": _text(self.now())}
            connection.execute(update(approvals).where(approvals.c.id == found.id).values(used))
        self._tell(_approval(found), "used")
        return True

    def restore_used(self, run_id: str, *, used_since: datetime) -> int:
        """Let this run use again what it used since: what came of that is lost; how many."""
        with write_transaction(self.engine) as connection:
            since = approvals.c.used_at > _text(used_since)
            given = approvals.c.run_id == run_id, approvals.c.status == "used", since
            found = connection.execute(select(approvals).where(*given)).all()
            for row in found:
                self._set(connection, row.id, "approved")
        for row in found:
            self._tell(_approval(row), "approved")
        return len(found)

    def decide(self, prefix: str, status: ApprovalStatus, *, by: str, reason: str = "") -> Approval:
        """Approve or deny; an approval may be taken back as long as it is not used.

        Raises:
            ApprovalNotFound: none is of that id, or more than one begins like that.
            ApprovalDecided: it does not wait any more.
            OptionInvalid: it is a question, and `reason`, the answer, is empty.
        """
        with self._changing() as connection:
            found = _named(connection, prefix)
            if found.status != "pending" and (found.status, status) != ("approved", "denied"):
                raise ApprovalDecided(_decided(_approval(found)))
            if status == "approved" and not reason.strip() and _approval(found).is_question:
                raise OptionInvalid(f"approval {found.id} is a question: say your answer")
            self._set(connection, found.id, status, by=by, reason=reason)
            decided = _approval(_named(connection, found.id))
        self._tell(decided, status)
        return decided

    def get(self, prefix: str) -> Approval:
        """One approval, by its id or how that begins.

        Raises:
            ApprovalNotFound: none, or more than one.
        """
        with self._changing() as connection:
            return _approval(_named(connection, prefix))

    def list(self, *, run_id: str | None = None, pending: bool = False) -> list[Approval]:
        """Approvals, the newest first."""
        query = select(approvals).order_by(approvals.c.asked_at.desc())
        if run_id is not None:
            query = query.where(approvals.c.run_id == run_id)
        if pending:
            now = _text(self.now())
            query = query.where(approvals.c.status == "pending", approvals.c.expires_at > now)
        with read_transaction(self.engine) as connection:
            return [_approval(row) for row in connection.execute(query)]

    def expired_undecided(self, run_id: str) -> Sequence[Approval]:
        """Those of a run on which nobody decided in time, and that it did not ask anew."""
        self.expire()
        newest = {one.action: one for one in reversed(self.list(run_id=run_id))}
        late = (one for one in newest.values() if one.status == "expired")
        return [one for one in late if one.decided_by is None]

    def expire(self) -> int:
        """Mark what nobody may decide or use any more; how many."""
        with write_transaction(self.engine) as connection:
            old = self._expire(connection)
        self._tell_expired(old)
        return len(old)

    def _add(self, connection: Connection, question: ApprovalRequest) -> Row[tuple[object, ...]]:
        now = self.now()
        row = {
            "id": token_hex(6),
            "action": question.action,
            "run_id": question.run_id,
            "step": question.step,
            "op": question.op,
            "arguments": json.loads(canonical_json(question.arguments)),
            "denied": denial_to_json(question.denied),
            "status": "pending",
            "asked_at": _text(now),
            "expires_at": _text(now + timedelta(seconds=self.ttl_s)),
            "reason": "",
            "node": question.node,
            "agent": question.agent,
        }
        connection.execute(approvals.insert().values(row))
        return _named(connection, str(row["id"]))

    def _set(
        self, connection: Connection, name: str, status: str, *, by: str = "", reason: str = ""
    ) -> None:
        changed: dict[str, object] = {"status": status}
        if by:
            changed |= {"decided_by": by, "reason": reason, "decided_at": _text(self.now())}
        connection.execute(update(approvals).where(approvals.c.id == name).values(changed))

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """A transaction that sees nothing as pending or approved which expired."""
        with write_transaction(self.engine) as connection:
            old = self._expire(connection)
            yield connection
        self._tell_expired(old)

    def _expire(self, connection: Connection) -> Sequence[Row[tuple[object, ...]]]:
        old = approvals.c.expires_at <= _text(self.now())
        waits = or_(approvals.c.status == "pending", approvals.c.status == "approved")
        expired = update(approvals).where(old, waits).values(status="expired")
        return connection.execute(expired.returning(approvals)).all()

    def _tell_expired(self, old: Sequence[Row[tuple[object, ...]]]) -> None:
        for row in old:
            self._tell(_approval(row), "expired")

    def _tell(self, approval: Approval, status: str) -> None:
        self.append(
            Draft(
                kind="approval",
                run_id=approval.run_id,
                body={
                    "approval": approval.id,
                    "action": approval.action,
                    "step": approval.step,
                    "op": approval.op,
                    "node": approval.node,
                    "status": status,
                    "by": approval.decided_by or "",
                    "reason": approval.reason,
                },
            )
        )


def _decided(approval: Approval) -> str:
    by = f" by {approval.decided_by}" if approval.decided_by else ""
    why = f" ({approval.reason})" if approval.reason else ""
    return f"approval {approval.id} is {approval.status}{by}{why}: only a run can ask again"


def _latest(connection: Connection, question: ApprovalRequest) -> Row[tuple[object, ...]] | None:
    """The newest that may still count; a denial counts for good."""
    return connection.execute(
        select(approvals)
        .where(approvals.c.action == question.action, approvals.c.run_id == question.run_id)
        .where(approvals.c.status.in_(("pending", "approved", "denied")))
        .order_by(approvals.c.asked_at.desc())
        .limit(1)
    ).one_or_none()


def _named(connection: Connection, prefix: str) -> Row[tuple[object, ...]]:
    found = connection.execute(
        select(approvals).where(approvals.c.id.startswith(prefix, autoescape=True)).limit(2)
    ).all()
    if len(found) != 1 or not prefix:
        many = "more than one approval begins" if found else "there is no approval"
        raise ApprovalNotFound(f"{many} with {prefix!r}: `harness approvals list` shows them")
    return found[0]


def _approval(row: Row[tuple[object, ...]]) -> Approval:
    return Approval(
        id=row.id,
        action=row.action,
        run_id=row.run_id,
        step=row.step,
        op=row.op,
        arguments=row.arguments,
        denied=denial_from_json(row.denied),
        status=row.status,
        asked_at=datetime.fromisoformat(row.asked_at),
        expires_at=datetime.fromisoformat(row.expires_at),
        decided_at=datetime.fromisoformat(row.decided_at) if row.decided_at else None,
        decided_by=row.decided_by,
        reason=row.reason,
        node=row.node,
        agent=row.agent,
    )


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
