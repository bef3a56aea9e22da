"""The stored relationship history: imported once, read in the events' own order, no address in plain."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from memory_core.compose import new_uuid
from memory_core.errors import MemoryCoreError
from memory_core.formats.envelope import SpaceKeys
from memory_core.formats.rows import read_rows
from memory_core.model import SENTIMENTS, Relationship, Space
from memory_core.policy import Policy, in_force
from memory_core.rules.relationship import check_event
from memory_core.storage import identities, schema
from memory_core.storage.prospect_notes import domain_hash
from memory_core.storage.relationship import add_events, relationship_of
from memory_core.storage.session import MasterKeys, Store, Unit, open_engine

NOW = datetime(2024, 6, 1, 12, tzinfo=UTC)
SPACE = "00000000-0000-4000-8000-000000000001"
OTHER = "00000000-0000-4000-8000-000000000002"
DOMAIN = "acme.dev"

Rows = Sequence[Mapping[str, Any]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    engine = open_engine(f"sqlite:///{tmp_path / 'memory.db'}")
    schema.metadata.create_all(engine)
    store = Store(engine, MasterKeys(b"k" * 32), lambda: NOW, new_uuid)
    for space_id in (SPACE, OTHER):
        space = Space(
            space_id=space_id,
            name="Space",
            outreach=True,
            subscription=True,
            settings_version=1,
            created_at=NOW,
        )
        store.create_space(
            space_id,
            lambda connection, space=space: identities.insert_space(connection, space, {}),  # type: ignore[misc]
            lambda unit: None,
        )
    yield store
    engine.dispose()


def bring(store: Store, rows: Rows, policy: Policy | None = None, space_id: str = SPACE) -> int:
    """Import rows; give how many were new."""
    events = [check_event(row, policy or Policy(), NOW)[0] for row in rows]
    return store.write(space_id, lambda unit: add_events(unit, events))


def relationship(store: Store, address: str | None = None, space_id: str = SPACE) -> Relationship:
    return store.read(space_id, lambda unit: relationship_of(unit, domain_hash(unit, DOMAIN), address))


def row(kind: str, day: int, *, address: str | None = None, **fields: Any) -> dict[str, Any]:
    """Give a row of a day in March, of the company or of one address at it."""
    return {"kind": kind, "at": f"2024-03-{day:02}T09:00:00Z", "domain": DOMAIN, "address": address, **fields}


def day(number: int) -> datetime:
    return datetime(2024, 3, number, 9, tzinfo=UTC)


JO, AL = "jo@acme.dev", "al@acme.dev"

HISTORY = (
    row("campaign", 1, campaign="Spring", language="de"),
    row("message", 2, campaign="Spring", address=JO),
    row("message", 2, campaign="Spring", address=AL),
    row("message", 5, campaign="Hiring", address=JO),
    row("reply", 6, campaign="Hiring", address=JO, sentiment="interested"),
    row("campaign", 7, campaign="Planned", language="fr"),
    row("suppression", 8, address=AL, cause="unsubscribed"),
    row("suppression", 9, cause="their lawyer wrote"),
    row("suppression_lifted", 10, cause="they came back"),
)


def test_a_company_without_events_has_an_empty_history(store: Store) -> None:
    assert relationship(store) == Relationship(suppressed_addresses=0)
    assert relationship(store, JO) == Relationship()


class TestImport:
    def test_importing_again_changes_nothing(self, store: Store) -> None:
        assert bring(store, HISTORY) == len(HISTORY)
        before = relationship(store), relationship(store, AL)
        assert bring(store, HISTORY) == 0
        assert bring(store, [*HISTORY, row("message", 11, campaign="Hiring")]) == 1
        assert bring(store, [*reversed(HISTORY)]) == 0
        after = relationship(store), relationship(store, AL)
        assert after[0].messages_sent == before[0].messages_sent + 1
        assert after[1].suppression == before[1].suppression

    def test_a_repeat_within_one_file_counts_once(self, store: Store) -> None:
        assert bring(store, [HISTORY[1]] * 2_500) == 1
        assert relationship(store).messages_sent == 1

    def test_csv_and_json_lines_with_other_spellings_are_the_same_events(
        self, store: Store, tmp_path: Path
    ) -> None:
        (tmp_path / "a.csv").write_text(
            "kind;at;domain;address;campaign;sentiment\n"
            "message;2024-03-02T10:00:00+01:00;www.acme.dev;JO@acme.dev; Spring  tour;\n"
            "Reply;2024-03-03T09:00:00Z;;jo@acme.dev;;Out of office\n"
        )
        (tmp_path / "b.jsonl").write_text(
            json.dumps(row("message", 2, address=JO, campaign="Spring tour"))
            + "\n"
            + json.dumps(row("reply", 3, address=JO, sentiment="out_of_office"))
        )
        new = [
            bring(store, [found for _, found in read_rows(tmp_path / name) if isinstance(found, Mapping)])
            for name in ("a.csv", "b.jsonl")
        ]
        assert new == [2, 0]

    def test_another_time_zone_of_the_space_makes_no_second_event_of_a_date(self, store: Store) -> None:
        rows = [{**HISTORY[1], "at": "2024-03-02"}]
        assert bring(store, rows, in_force({"timezone": "America/Sao_Paulo"})) == 1
        assert bring(store, rows, in_force({"timezone": "Asia/Tokyo"})) == 0
        assert relationship(store).campaigns[0].last_message_at == datetime(2024, 3, 2, 3, tzinfo=UTC)

    def test_the_order_of_rows_does_not_matter(self, store: Store) -> None:
        shuffled = list(HISTORY)
        random.Random(4).shuffle(shuffled)
        bring(store, HISTORY)
        bring(store, shuffled, space_id=OTHER)
        for address in (None, JO, AL):
            assert relationship(store, address) == relationship(store, address, OTHER)

    def test_nothing_crosses_spaces(self, store: Store) -> None:
        bring(store, HISTORY)
        assert relationship(store, space_id=OTHER) == Relationship(suppressed_addresses=0)
        assert bring(store, HISTORY, space_id=OTHER) == len(HISTORY)

    def test_events_of_another_company_are_not_counted(self, store: Store) -> None:
        bring(store, [{**HISTORY[1], "domain": "other.dev", "address": "jo@other.dev"}])
        assert relationship(store) == Relationship(suppressed_addresses=0)

    def test_no_address_campaign_or_cause_is_in_the_file_in_plain(self, store: Store, tmp_path: Path) -> None:
        # Shorter texts than these stand in ciphertext by chance, once in a few hundred runs.
        person = f"planted.person@{DOMAIN}"
        bring(store, [*HISTORY, row("message", 11, campaign="Hiring", address=person)])
        store.engine.dispose()
        kept = b"".join(path.read_bytes() for path in tmp_path.iterdir()).lower()
        assert len(kept) > 10_000
        for plain in (JO, AL, DOMAIN, "planted.person", "spring", "hiring", "unsubscribed", "lawyer"):
            assert plain.encode() not in kept, plain

    def test_sealed_fields_are_bound_to_their_row(self, store: Store) -> None:
        bring(store, [row("campaign", 1, campaign="Spring"), row("campaign", 2, campaign="Hiring")])
        events = schema.relationship_events

        def move(unit: Unit) -> None:
            of_space = events.c.space_id == SPACE
            sealed = unit.connection.scalars(select(events.c.sealed_campaign).where(of_space).limit(1)).one()
            unit.connection.execute(update(events).where(of_space).values(sealed_campaign=sealed))

        store.write(SPACE, move)
        with pytest.raises(MemoryCoreError, match="altered or moved"):
            relationship(store)


class TestCampaigns:
    def test_the_newest_message_comes_first_and_a_campaign_without_messages_last(self, store: Store) -> None:
        bring(store, HISTORY)
        found = relationship(store)
        assert [
            (campaign.campaign, campaign.language, campaign.messages_sent, campaign.last_message_at)
            for campaign in found.campaigns
        ] == [("Hiring", None, 1, day(5)), ("Spring", "de", 2, day(2)), ("Planned", "fr", 0, None)]
        assert found.messages_sent == 3

    def test_the_latest_language_counts_and_a_row_without_one_blanks_nothing(self, store: Store) -> None:
        bring(
            store,
            [
                row("campaign", 3, campaign="Spring", language="pt-BR"),
                row("campaign", 1, campaign="Spring", language="de"),
                row("campaign", 5, campaign="Spring"),
            ],
        )
        assert [(found.campaign, found.language) for found in relationship(store).campaigns] == [
            ("Spring", "pt-BR")
        ]

    def test_a_campaign_known_from_a_reply_alone_is_named(self, store: Store) -> None:
        bring(store, [row("reply", 3, campaign="Old", sentiment="positive")])
        assert [(found.campaign, found.messages_sent) for found in relationship(store).campaigns] == [
            ("Old", 0)
        ]


class TestLastReply:
    def test_it_is_the_latest_whoever_is_asked_about(self, store: Store) -> None:
        bring(
            store,
            [
                row("reply", 9, address=JO, sentiment="negative"),
                row("reply", 4, address=AL, sentiment="positive"),
            ],
        )
        for address in (None, JO, AL):
            found = relationship(store, address)
            assert found.last_reply is not None
            assert (found.last_reply.at, found.last_reply.sentiment) == (day(9), "negative")
            assert found.stop_reasons == ("last_reply_negative",)

    def last(self, store: Store) -> tuple[datetime, str] | None:
        found = relationship(store).last_reply
        return None if found is None else (found.at, found.sentiment)

    @pytest.mark.parametrize(
        ("replies", "worst"),
        [
            (("positive", "negative", "bounce"), "bounce"),
            (("positive", "neutral", "interested"), "neutral"),
            (("positive", "negative", None), "negative"),
        ],
    )
    def test_at_the_same_instant_the_worst_known_one_counts(
        self, store: Store, replies: tuple[str | None, ...], worst: str
    ) -> None:
        for number, order in enumerate(itertools.permutations(replies), 1):
            bring(store, [row("reply", number, sentiment=sentiment) for sentiment in order])
            assert self.last(store) == (day(number), worst)

    @pytest.mark.parametrize("known", SENTIMENTS)
    @pytest.mark.parametrize("unknown", [None, "", "no idea"])
    @pytest.mark.parametrize("when", [2, 4, 6])
    def test_a_row_without_a_known_sentiment_blanks_no_reply(
        self, store: Store, known: str, unknown: str | None, when: int
    ) -> None:
        bring(store, [row("reply", 4, address=JO, sentiment=known)])
        stop = relationship(store).stop_reasons
        assert bring(store, [row("reply", when, address=JO, sentiment=unknown)]) == 1
        assert self.last(store) == (day(4), known)
        assert relationship(store).stop_reasons == stop
        assert bool(stop) is (known in ("negative", "bounce"))

    def test_a_later_known_one_counts_after_unknown_ones(self, store: Store) -> None:
        bring(
            store,
            [row("reply", 2, sentiment="negative"), row("reply", 4), row("reply", 6, sentiment="neutral")],
        )
        assert self.last(store) == (day(6), "neutral")
        assert relationship(store).stop_reasons == ()

    def test_unknown_ones_alone_are_read_as_neutral(self, store: Store) -> None:
        bring(store, [row("reply", 6, sentiment="no idea"), row("reply", 4)])
        assert self.last(store) == (day(6), "neutral")

    def test_an_unknown_one_is_not_the_same_event_as_a_neutral_one(self, store: Store) -> None:
        rows = [row("reply", 4, sentiment=sentiment) for sentiment in (None, "no idea", "neutral")]
        assert bring(store, rows) == 2
        assert bring(store, rows) == 0


class TestSuppression:
    def state(self, store: Store, address: str | None = None) -> tuple[str, str | None, datetime] | None:
        found = relationship(store, address).suppression
        return None if found is None else (found.scope, found.cause, found.since)

    def test_a_lift_and_then_a_suppression_again(self, store: Store) -> None:
        rows = [
            row("suppression", 2, cause="asked"),
            row("suppression_lifted", 4),
            row("suppression", 6, cause="asked again"),
        ]
        states = []
        for one in rows:
            bring(store, [one])
            states.append(self.state(store))
        assert states == [("domain", "asked", day(2)), None, ("domain", "asked again", day(6))]
        # The old rows once more: an import of history moves nothing.
        bring(store, rows[:2])
        assert self.state(store) == states[-1]

    def test_no_other_row_lifts_or_blanks_it(self, store: Store) -> None:
        bring(store, [row("suppression", 2, cause="asked")])
        bring(
            store,
            [
                row("suppression", 5),
                row("suppression", 6, cause="asked twice"),
                row("message", 7, campaign="Spring"),
                row("reply", 8, sentiment="positive"),
                row("campaign", 9, campaign="Spring"),
                row("suppression_lifted", 1),
            ],
        )
        assert self.state(store) == ("domain", "asked", day(2))
        assert relationship(store).stop_reasons == ("suppressed",)

    def test_the_first_cause_that_was_given_is_shown(self, store: Store) -> None:
        bring(store, [row("suppression", 2), row("suppression", 5, cause="asked")])
        assert self.state(store) == ("domain", "asked", day(2))

    @pytest.mark.parametrize("turned", [False, True])
    @pytest.mark.parametrize("address", [None, JO])
    def test_at_the_same_instant_a_suppression_wins(
        self, store: Store, turned: bool, address: str | None
    ) -> None:
        rows = [
            row("suppression", 4, address=address),
            {**row("suppression_lifted", 4, address=address), "at": "2024-03-04T11:00:00+02:00"},
        ]
        bring(store, rows[::-1] if turned else rows)
        assert self.state(store, JO) == ("domain" if address is None else "address", None, day(4))
        assert relationship(store).suppressed_addresses == (0 if address is None else 1)

    def test_instants_order_rows_whatever_their_offsets(self, store: Store) -> None:
        bring(
            store,
            [
                {**row("suppression", 1), "at": "2024-03-10T23:30:00-08:00"},
                {**row("suppression_lifted", 1), "at": "2024-03-11T07:00:00Z"},
            ],
        )
        assert self.state(store) == ("domain", None, datetime(2024, 3, 11, 7, 30, tzinfo=UTC))

    def test_a_lift_of_an_address_leaves_the_company_suppressed(self, store: Store) -> None:
        bring(
            store,
            [row("suppression", 2, cause="company"), row("suppression_lifted", 4, address=JO)],
        )
        assert self.state(store) == self.state(store, JO) == ("domain", "company", day(2))

    def test_a_lift_of_the_company_leaves_its_addresses_suppressed(self, store: Store) -> None:
        bring(
            store,
            [row("suppression", 2, address=JO, cause="own"), row("suppression_lifted", 4)],
        )
        assert self.state(store, JO) == ("address", "own", day(2))
        assert self.state(store, AL) is None
        assert self.state(store) is None
        assert relationship(store).stop_reasons == ()

    def test_asked_by_address_the_company_comes_first(self, store: Store) -> None:
        bring(store, [row("suppression", 2, address=JO, cause="own"), row("suppression", 4, cause="company")])
        assert self.state(store, JO) == ("domain", "company", day(4))

    def test_a_domain_scope_with_an_address_is_the_companys(self, store: Store) -> None:
        bring(store, [row("suppression", 2, address=JO, scope="domain")])
        assert self.state(store, AL) == ("domain", None, day(2))
        assert relationship(store).suppressed_addresses == 0

    def test_suppressed_addresses_are_those_suppressed_now(self, store: Store) -> None:
        bring(
            store,
            [
                row("suppression", 2, address=JO),
                row("suppression", 3, address=JO),
                row("suppression", 2, address=AL),
                row("suppression_lifted", 5, address=AL),
                row("suppression", 2, address="bo@mail.acme.dev"),
                row("suppression_lifted", 2, address="cy@acme.dev"),
            ],
        )
        assert relationship(store).suppressed_addresses == 2
        assert relationship(store, JO).suppressed_addresses is None

    def test_the_state_is_the_fold_of_the_rows_in_time(self, store: Store) -> None:
        """Compares with a plain fold over 60 random histories, one company each."""
        draw = random.Random(9)
        for number in range(60):
            company = f"company{number}.dev"
            address = f"jo@{company}"
            rows = [
                {
                    "kind": draw.choice(["suppression", "suppression_lifted"]),
                    "at": day(draw.randint(1, 6)).isoformat(),
                    "address": address,
                    "scope": draw.choice(["address", "domain"]),
                }
                for _ in range(draw.randint(0, 8))
            ]
            bring(store, rows)
            since: dict[str, datetime | None] = {"domain": None, "address": None}
            for one in sorted(rows, key=lambda one: (one["at"], one["kind"] == "suppression")):
                at = datetime.fromisoformat(one["at"])
                since[one["scope"]] = (since[one["scope"]] or at) if one["kind"] == "suppression" else None
            asked = store.read(
                SPACE,
                lambda unit, company=company, address=address: [  # type: ignore[misc]
                    relationship_of(unit, domain_hash(unit, company), who) for who in (None, address)
                ],
            )
            by_domain, by_address = asked
            assert (by_domain.suppression and by_domain.suppression.since) == since["domain"]
            assert by_domain.suppressed_addresses == (since["address"] is not None)
            expected = since["domain"] or since["address"]
            assert (by_address.suppression and by_address.suppression.since) == expected


def test_messages_are_counted_in_the_database(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A company with 20,000 messages costs one opened field a campaign, not one a message."""
    first, _ = check_event(row("message", 2, campaign="Spring", address=JO), Policy(), NOW)
    events = [
        replace(first, campaign=f"Campaign {number % 3}", at=first.at.replace(microsecond=number))
        for number in range(20_000)
    ]
    assert store.write(SPACE, lambda unit: add_events(unit, events)) == 20_000
    opened: list[str] = []
    plainly = SpaceKeys.open

    def counted(keys: SpaceKeys, table: str, row: str, name: str, sealed: bytes) -> bytes:
        opened.append(name)
        return plainly(keys, table, row, name, sealed)

    monkeypatch.setattr(SpaceKeys, "open", counted)
    found = relationship(store)
    assert found.messages_sent == 20_000
    assert [(campaign.campaign, campaign.messages_sent) for campaign in found.campaigns] == [
        ("Campaign 1", 6_667),
        ("Campaign 0", 6_667),
        ("Campaign 2", 6_666),
    ]
    assert opened == ["campaign"] * 3
