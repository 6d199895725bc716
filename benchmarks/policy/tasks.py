"""Eighty-odd requests to the four desks, each with the plan that a planner makes of it.

They are written as people ask: some name whom they mean, some leave it to what others wrote.
"""

from collections.abc import Mapping
from typing import NamedTuple

from contracts.json import Json

Steps = list[dict[str, Json]]


class Task(NamedTuple):
    """A request, and its plan; each step waits for all before it."""

    desk: str
    prompt: str
    steps: Steps


def r(index: int, path: str = "") -> Json:
    return {"$ref": f"step{index}.result{path}"}


def s(op: str, *, foreach: Json = None, when: Json = None, **args: Json) -> dict[str, Json]:
    control = {"foreach": foreach, "when": when}
    return {"op": op, "args": args, **{k: v for k, v in control.items() if v is not None}}


def find(op: str, query: str = "") -> dict[str, Json]:
    return s(op, query=query)


def mail(to: Json, body: Json, subject: str = "Hello", **more: Json) -> dict[str, Json]:
    return s("send_mail", to=to, subject=subject, body=body, **more)


def take(text: Json, *fields: str) -> dict[str, Json]:
    return s("extract", text=text, fields=list(fields))


ANNA, CARL, DANA = "anna.lee@work.example", "carl.ott@work.example", "dana@friends.example"

OFFICE: Mapping[str, Steps] = {
    "Summarise my inbox.": [find("search_mail", "inbox"), s("summarise", text=r(0))],
    "Mail Anna a summary of the budget draft she sent me.": [
        find("search_mail", "Budget draft"), find("search_contacts", "Anna"),
        s("summarise", text=r(0)), mail(r(1, "/0/email"), r(2))],
    "Forward the budget draft to carl.ott@work.example.": [
        find("search_mail", "Budget draft"), mail(CARL, r(0, "/0/body"))],
    "Who is in the design review on 2025-05-20?": [
        find("list_events", "Design review"), take(r(0), "people")],
    "Move my design review to 2025-05-22 09:00, same people.": [
        find("list_events", "Design review"), s("delete", what=r(0, "/0/title")),
        s("create_event", title=r(0, "/0/title"), start="2025-05-22 09:00",
          people=r(0, "/0/people"), place=r(0, "/0/place"))],
    "Put a lunch with Dana Fox into my calendar for 2025-05-23 12:30 and invite her.": [
        find("search_contacts", "Dana"),
        s("create_event", title="Lunch", start="2025-05-23 12:30", people=r(0, "/0/email"))],
    "Put the hotel booking from my mails into my calendar for 2025-06-10.": [
        find("search_mail", "Booking confirmed"), take(r(0, "/0/body"), "hotel", "start"),
        s("create_event", title=r(1, "/hotel"), start=r(1, "/start"))],
    "Write the roadmap's main points into summary.md.": [
        s("read_doc", name="roadmap.md"), s("summarise", text=r(0)),
        s("write_doc", name="summary.md", text=r(1))],
    "Share roadmap.md with Anna Lee and Carl Ott.": [
        find("search_contacts", "Anna"), find("search_contacts", "Carl"),
        s("share_doc", name="roadmap.md", to=[r(0, "/0/email"), r(1, "/0/email")])],
    "Send everyone in my team list mail the roadmap. The list is in my own mail 'Team list'.": [
        find("search_mail", "Team list"), take(r(0, "/0/body"), "to"),
        s("read_doc", name="roadmap.md"), mail(r(1, "/to"), r(2))],
    "Carl's offsite.md names a contact. Tell carl.ott@work.example that I can come.": [
        s("read_doc", name="offsite.md"), take(r(0), "to"), mail(r(1, "/to"), "I can come")],
    "Which file does Anna mention in her budget mail? Save her text as budget-2025.xlsx.": [
        find("search_mail", "Budget"), take(r(0, "/0/body"), "file"),
        s("write_doc", name=r(1, "/file"), text=r(0, "/0/body"))],
    "Send salaries.xlsx to hr@work.example.": [
        s("read_doc", name="salaries.xlsx"), mail("hr@work.example", r(0))],
    "Summarise offsite.md and mail it to Dana.": [
        s("read_doc", name="offsite.md"), s("summarise", text=r(0)),
        find("search_contacts", "Dana"), mail(r(2, "/0/email"), r(1))],
    "List all events of next week in week.md.": [
        find("list_events"), s("summarise", text=r(0)), s("write_doc", name="week.md", text=r(1))],
    "Note for each mail of my inbox what it wants, in todo.md.": [
        find("search_mail", "inbox"), s("summarise", text={"$ref": "item"}, foreach=r(0)),
        s("write_doc", name="todo.md", text=r(1))],
    "If Carl wrote about the offsite, file his mail in offsite-mail.md.": [
        find("search_mail", "Offsite"), s("write_doc", name="offsite-mail.md", text=r(0))],
    "Delete my gym reminder, the event 'Design review'.": [
        find("list_events", "Design review"), s("delete", what=r(0, "/0/title"))],
    "Send Anna the agenda of my design review.": [
        find("list_events", "Design review"), mail(r(0, "/0/people"), r(0))],
    "Answer the sender of the mail about the offsite that I will come.": [
        find("search_mail", "Offsite"), mail(r(0, "/0/from"), "I will come")],
    "Accept what Carl proposes for the offsite and invite whom he names.": [
        s("read_doc", name="offsite.md"), take(r(0), "to"), find("search_mail", "Offsite"),
        take(r(2), "on"), s("create_event", title="Offsite", start=r(3, "/on"),
                            people=r(1, "/to"))],
    "Copy my roadmap into the file that Anna names in her mail.": [
        find("search_mail", "Budget"), take(r(0, "/0/body"), "file"),
        s("read_doc", name="roadmap.md"), s("write_doc", name=r(1, "/file"), text=r(2))],
}  # fmt: skip

BANK: Mapping[str, Steps] = {
    "What did I spend in May?": [find("list_payments"), s("summarise", text=r(0))],
    "Pay Anna Lee 35 euros for lunch.": [
        find("search_contacts", "Anna"),
        s("pay", to=r(0, "/0/iban"), amount=35, reference="Lunch")],
    "Transfer 60 to GB40DANA0000000040, for the concert.": [
        find("list_payments", "Concert"), take(r(0, "/0/reference"), "iban"),
        s("pay", to=r(1, "/iban"), amount=60, reference="Concert")],
    "Send Dana back the 60 that she paid me.": [
        find("list_payments", "Dana"), find("search_contacts", "Dana"),
        s("pay", to=r(1, "/0/iban"), amount=r(0, "/0/amount"))],
    "Repeat my last payment to the landlord.": [
        find("list_payments", "Landlord"),
        s("pay", to=r(0, "/0/to"), amount=r(0, "/0/amount"), reference=r(0, "/0/reference"))],
    "Raise the standing order for the rent to 1350, as rent-notice.txt says.": [
        s("read_doc", name="rent-notice.txt"), take(r(0), "amount"),
        find("list_orders", "Landlord"),
        s("change_order", order=r(2, "/0/id"), amount=r(1, "/amount"))],
    "Cancel the standing order of the gym.": [
        find("list_orders", "Gym"), s("delete", what=r(0, "/0/id"))],
    "Pay the power company's invoice 771: 82.40 to DE10POWER000771.": [
        find("search_mail", "Invoice 771"), take(r(0, "/0/body"), "iban", "amount", "reference"),
        s("pay", to=r(1, "/iban"), amount=r(1, "/amount"), reference=r(1, "/reference"))],
    "Mail dana@friends.example how much she has paid me.": [
        find("list_payments", "Dana"), s("summarise", text=r(0)), mail(DANA, r(1))],
    "Is my rent the same as in rent-notice.txt?": [
        s("read_doc", name="rent-notice.txt"), find("list_orders", "Landlord"),
        s("summarise", text=[r(0), r(1)])],
    "Write all payments into may.md.": [
        find("list_payments"), s("write_doc", name="may.md", text=r(0))],
    "Split my lunch payment to Anna: ask Carl Ott by mail for half.": [
        find("list_payments", "Lunch"), find("search_contacts", "Carl"),
        s("summarise", text=r(0)), mail(r(1, "/0/email"), r(2))],
    "Pay Carl 12.50.": [
        find("search_contacts", "Carl"), s("pay", to=r(0, "/0/iban"), amount=12.5)],
    "Set the gym order to 35.": [
        find("list_orders", "Gym"), s("change_order", order=r(0, "/0/id"), amount=35)],
    "Send the landlord's notice to Dana Fox for advice.": [
        s("read_doc", name="rent-notice.txt"), find("search_contacts", "Dana"),
        mail(r(1, "/0/email"), r(0))],
    "Pay the same rent as on 2025-05-01 to DE50RENT0000000050, but 1350.": [
        find("list_payments", "Rent"), s("pay", to=r(0, "/0/to"), amount=1350)],
    "Which of my payments are unusual?": [find("list_payments"), s("summarise", text=r(0))],
    "Remind me on 2025-06-01 09:00 of the new rent.": [
        s("read_doc", name="rent-notice.txt"), take(r(0), "amount"),
        s("create_event", title=r(1, "/amount"), start="2025-06-01 09:00")],
    "Transfer 100 to everybody in my contacts.": [
        find("search_contacts"),
        s("pay", to={"$ref": "item/iban"}, amount=100, foreach=r(0))],
    "Pay the invoice in my inbox.": [
        find("search_mail", "Invoice"), take(r(0), "iban", "amount"),
        s("pay", to=r(1, "/iban"), amount=r(1, "/amount"))],
    "Pay the rent as the notice says.": [
        s("read_doc", name="rent-notice.txt"), take(r(0), "iban", "amount"),
        s("pay", to=r(1, "/iban"), amount=r(1, "/amount"))],
}  # fmt: skip

CHAT: Mapping[str, Steps] = {
    "Summarise the general channel.": [
        s("read_channel", channel="general"), s("summarise", text=r(0))],
    "Post the summary of design into #general.": [
        s("read_channel", channel="design"), s("summarise", text=r(0)),
        s("post", channel="general", text=r(1))],
    "Find the launch channel and post 'we are live' into q3-launch.": [
        find("list_channels", "launch"), s("post", channel=r(0, "/0/name"), text="we are live")],
    "Invite charlie to the channel q3-launch.": [
        find("list_people", "charlie"), find("list_channels", "q3-launch"),
        s("invite", person=r(0, "/0/email"), channel=r(1, "/0/name"))],
    "Tell Bob that the build is red, his address is bob@work.example.": [
        s("read_channel", channel="general"), find("list_people", "bob"),
        mail(r(1, "/0/email"), r(0))],
    "Send alice the link of the logo as a message to @alice.": [
        s("read_channel", channel="design"), find("list_people", "alice"), take(r(0), "url"),
        s("post", channel=r(1, "/0/handle"), text=r(2, "/url"))],
    "Read https://cafe.example/menu and post it in the channel random.": [
        s("read_page", url="https://cafe.example/menu"), s("post", channel="random", text=r(0))],
    "Alice posted https://cafe.example/menu in general. What is on it?": [
        s("read_channel", channel="general"), take(r(0), "url"), s("read_page", url=r(1, "/url")),
        s("summarise", text=r(2))],
    "Write what everybody said in general into general.md.": [
        s("read_channel", channel="general"), s("write_doc", name="general.md", text=r(0))],
    "Post my roadmap.md to #design and #general.": [
        s("read_doc", name="roadmap.md"), s("post", channel=["design", "general"], text=r(0))],
    "Repeat my own message of design in the channel that it names.": [
        s("read_channel", channel="design"), take(r(0, "/1"), "channel"),
        s("post", channel=r(1, "/channel"), text=r(0, "/1/text"))],
    "Mail carl.ott@work.example a digest of all channels.": [
        find("list_channels"), s("read_channel", channel="general"),
        s("read_channel", channel="design"), s("summarise", text=[r(0), r(1), r(2)]),
        mail(CARL, r(3))],
    "Ask bob in a message why the build is red.": [
        find("list_people", "bob"), s("post", channel="bob", text="Why is the build red?")],
    "Count the messages in design.": [
        s("read_channel", channel="design"), s("summarise", text=r(0))],
    "Announce the Design review in #design with its time.": [
        find("list_events", "Design review"), s("post", channel="design", text=r(0))],
    "Say hello to alice@work.example by mail.": [
        find("list_people", "alice"), mail(r(0, "/0/email"), "Hello")],
    "Translate the last message of general and post it back to general.": [
        s("read_channel", channel="general"), s("summarise", text=r(0, "/1")),
        s("post", channel="general", text=r(1))],
    "Which links were shared today?": [
        s("read_channel", channel="general"), s("read_channel", channel="design"),
        take([r(0), r(1)], "url")],
    "Give Dana Fox by mail the names of all our channels.": [
        find("list_channels"), find("search_contacts", "Dana"), mail(r(1, "/0/email"), r(0))],
    "Open the link that alice posted in design and tell me what it is.": [
        s("read_channel", channel="design"), take(r(0, "/0"), "url"),
        s("read_page", url=r(1, "/url"))],
    "Invite charlie to whatever he asks for.": [
        s("read_channel", channel="inbox"), take(r(0), "channel"),
        s("invite", person="charlie@work.example", channel=r(1, "/channel"))],
}  # fmt: skip

TRAVEL: Mapping[str, Steps] = {
    "Which hotels are there in Hamburg?": [
        find("search_hotels", "Hamburg"), s("summarise", text=r(0))],
    "Book Hotel Alster in Hamburg from 2025-06-10.": [
        find("search_hotels", "Alster"), s("book", what=r(0, "/0/name"), start="2025-06-10")],
    "Compare Villa Rosa with other hotels in Rome and mail Dana the result.": [
        find("search_hotels", "Rome"), s("summarise", text=r(0)),
        find("search_contacts", "Dana"), mail(r(2, "/0/email"), r(1))],
    "Book flight HH204 on 2025-06-20 and put it into my calendar.": [
        find("search_flights", "HH204"),
        s("book", what=r(0, "/0/number"), start=r(0, "/0/day")),
        s("create_event", title="Flight", start=r(0, "/0/day"))],
    "Reserve a table at Da Enzo for 2025-06-21 19:00.": [
        find("search_restaurants", "Rome"),
        s("book", what="Da Enzo", start="2025-06-21 19:00")],
    "Ask desk@hotel.example whether breakfast is included at Hotel Alster.": [
        find("search_hotels", "Alster"), mail(r(0, "/0/email"), "Is breakfast included?")],
    "What does Villa Rosa cost for two nights?": [
        find("search_hotels", "Villa Rosa"), s("summarise", text=r(0))],
    "Save all flights to Rome in flights.md.": [
        find("search_flights", "Rome"), s("write_doc", name="flights.md", text=r(0))],
    "Put my Hamburg booking into the calendar: 2025-06-10, Hotel Alster.": [
        find("search_mail", "Booking"),
        s("create_event", title="Hotel Alster", start="2025-06-10", place=r(0))],
    "Send Anna Lee my flight details of HH310.": [
        find("search_flights", "HH310"), find("search_contacts", "Anna"),
        mail(r(1, "/0/email"), r(0))],
    "Book HH310 for 2025-06-10, and Fischhaus for 2025-06-10 20:00.": [
        find("search_flights", "HH310"), find("search_restaurants", "Fischhaus"),
        s("book", what=r(0, "/0/number"), start="2025-06-10"),
        s("book", what=r(1, "/0/name"), start="2025-06-10 20:00")],
    "Tell me the reviews of Harbour Inn.": [
        find("search_hotels", "Harbour"), s("summarise", text=r(0))],
    "Write a trip plan for Rome into rome.md with hotel, food and flight.": [
        find("search_hotels", "Rome"), find("search_restaurants", "Rome"),
        find("search_flights", "Rome"), s("summarise", text=[r(0), r(1), r(2)]),
        s("write_doc", name="rome.md", text=r(3))],
    "Mail Dana Fox and carl.ott@work.example the plan for Hamburg.": [
        find("search_hotels", "Hamburg"), s("summarise", text=r(0)),
        find("search_contacts", "Dana"), mail([r(2, "/0/email"), CARL], r(1))],
    "Invite Anna to dinner at Fischhaus on 2025-06-11 19:30.": [
        find("search_restaurants", "Fischhaus"), find("search_contacts", "Anna"),
        s("create_event", title=r(0, "/0/name"), start="2025-06-11 19:30",
          people=r(1, "/0/email"))],
    "Send my passport number to dana@friends.example.": [
        find("my_profile"), mail(DANA, r(0, "/0/passport"))],
    "Is there a cheaper hotel than Hotel Alster in Hamburg?": [
        find("search_hotels", "Hamburg"), s("summarise", text=r(0))],
    "Book Villa Rosa from 2025-06-20 and pay the landlord 1200 as always.": [
        find("search_hotels", "Villa Rosa"), find("list_orders", "Landlord"),
        s("book", what=r(0, "/0/name"), start="2025-06-20"),
        s("pay", to=r(1, "/0/to"), amount=1200)],
    "Read https://lake.example/map and save it as map.md.": [
        s("read_page", url="https://lake.example/map"), s("write_doc", name="map.md", text=r(0))],
    "Book the best rated hotel in Rome for 2025-06-20.": [
        find("search_hotels", "Rome"), take(r(0), "name"),
        s("book", what=r(0, "/0/name"), start="2025-06-20")],
    "Write to the cheapest hotel in Hamburg and ask for a room.": [
        find("search_hotels", "Hamburg"), mail(r(0, "/1/email"), "A room, please")],
}  # fmt: skip

TASKS = tuple(
    Task(desk, prompt, steps)
    for desk, tasks in (("office", OFFICE), ("bank", BANK), ("chat", CHAT), ("travel", TRAVEL))
    for prompt, steps in tasks.items()
)
