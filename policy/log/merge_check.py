"""What a log refuses to take in, though it hangs together. Pure."""

from policy.errors import EventsInvalid
from policy.log.history import History, merge
from policy.log.taint import data_flow, entities_losing_tags


def check_merge(here: History, theirs: History) -> None:
    """Refuse a history that may not be merged into the one that is here.

    Raises:
        EventsInvalid: two machines share a name, or an entity of ours would lose a tag.
    """
    counted = {(event.replica, event.counter): event.id for event in here.events.values()}
    for event in theirs.events.values():
        if counted.setdefault((event.replica, event.counter), event.id) != event.id:
            raise EventsInvalid(
                f"event {event.id} is number {event.counter} of {event.replica!r}, and so is "
                "another one here: two machines share its name, or one of the logs was put back. "
                "Nothing was merged"
            )
    lost = entities_losing_tags(data_flow(here), data_flow(merge(here, theirs)))
    if lost:
        raise EventsInvalid(
            f"merging would take taint away from entity {lost[0]}, which is here already. "
            "Nothing was merged; approve it here if you trust it"
        )
