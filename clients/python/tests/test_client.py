"""What the client promises by itself, before a service that does as it is told."""

from __future__ import annotations

import asyncio
import contextvars
import socket
import threading
import time
import unittest
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from unittest import mock

from hapax_client import (
    AsyncClient,
    Backoff,
    Budget,
    Budgets,
    Client,
    Done,
    Headers,
    Intent,
    IntentError,
    KeyStyle,
    Operation,
    Policy,
    Problem,
    Refusal,
    Refused,
    Response,
    TokenBucket,
    Unknown,
    retries,
    retrying,
)
from hapax_client.course import Cost
from hapax_client.exchange import Exchange, Failure
from hapax_client.observation import Lost, NeverSent
from hapax_client.status import address
from hapax_client.times import retry_after, until

QUICK = Policy(backoff=Backoff(base=0.001), waiting=Backoff(base=0.001), throttled_base=0.001)
URL = "https://api.example/payments"


class Scripted:
    """A transport whose answers are written down."""

    def __init__(self, *results):
        self.results = list(results)
        self.asked = []
        self.retried = []

    def exchange(self, request):
        self.asked.append(request)
        self.retried.append(retries())
        return self.results.pop(0)


def answer(status, body=b"", **headers):
    lines = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Response(status, Headers.of(lines), body)


def problem(status, name, **headers):
    body = f'{{"type": "urn:hapax:problem:{name}"}}'.encode()
    return answer(status, body, content_type="application/problem+json", **headers)


LOST = Failure(Lost(), "cut")
STATUS = '</.well-known/idempotency/operations/abc?of=x>; rel="status"'


class Intents(unittest.TestCase):
    def test_b1_the_key_is_made_before_the_first_attempt_and_kept_in_each(self):
        transport = Scripted(LOST, LOST, answer(201))
        intent = Intent.post(URL, json={"amount": 1200})
        outcome = Client(transport, policy=QUICK).send(intent)
        self.assertIsInstance(outcome, Done)
        self.assertEqual(outcome.sent, 3)
        sent = {(it.method, it.url, it.headers, it.body) for it in transport.asked}
        self.assertEqual(len(sent), 1, "each attempt is the same")
        self.assertIn(("Idempotency-Key", f'"{intent.key}"'), transport.asked[0].headers)
        self.assertNotEqual(Intent.post(URL).key, intent.key, "another intent, another key")

    def test_keys_are_uuids_of_version_7(self):
        before = time.time_ns() // 1_000_000
        key = Intent.post(URL).key
        after = time.time_ns() // 1_000_000
        self.assertEqual(key, str(uuid.UUID(key)))
        self.assertEqual((uuid.UUID(key).version, uuid.UUID(key).variant), (7, uuid.RFC_4122))
        self.assertTrue(before <= int(key.replace("-", "")[:12], 16) <= after)

    def test_nothing_of_an_intent_can_be_changed(self):
        content = bytearray(b"once")
        fields = {"X-Account": "7"}
        intent = Intent.post(URL, body=content, headers=fields)
        content[:] = b"more"
        fields["X-Account"] = "8"
        self.assertEqual(intent.body, b"once")
        self.assertIn(("X-Account", "7"), intent.headers)
        for name in ("key", "body", "url", "anything"):
            with self.assertRaises(AttributeError):
                setattr(intent, name, "other")
        with self.assertRaises(AttributeError):
            del intent.key

    def test_safe_and_idempotent_methods_get_no_key_and_unsafe_ones_may_go_without(self):
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "delete"):
            self.assertIsNone(Intent(method, URL).key, method)
        for method in ("POST", "PATCH", "LINK"):
            self.assertIsNotNone(Intent(method, URL).key, method)
            self.assertIsNone(Intent(method, URL, without_key=True).key, method)
        self.assertEqual(Intent("PUT", URL, key="order 7").key, "order 7")

    def test_a_key_is_written_as_it_is_asked_for(self):
        for style, field in ((KeyStyle.QUOTED, '"a\\"b\\\\c"'), (KeyStyle.BARE, 'a"b\\c')):
            intent = Intent.post(URL, key='a"b\\c', key_style=style)
            self.assertIn(("Idempotency-Key", field), intent.headers)

    def test_what_cannot_be_sent_is_no_intent(self):
        for wrong in (
            {"url": "/payments"},
            {"url": "ftp://api.example/"},
            {"key": ""},
            {"key": "x" * 256},
            {"key": "schlüssel"},
            {"key": "a", "without_key": True},
            {"headers": {"Idempotency-Key": "x"}},
            {"headers": {"content-length": "1"}},
            {"headers": {"X": "a\r\nY: b"}},
            {"headers": {"X Y": "a"}},
            {"json": {1}},
            {"json": float("nan")},
            {"json": 1, "body": b"1"},
        ):
            with self.subTest(wrong), self.assertRaises(IntentError):
                Intent.post(**{"url": URL, **wrong})


class Outcomes(unittest.TestCase):
    def test_k7_without_a_key_an_unsafe_request_is_sent_once(self):
        transport = Scripted(LOST)
        outcome = Client(transport, policy=QUICK).send(Intent.post(URL, without_key=True))
        self.assertIsInstance(outcome, Unknown)
        self.assertEqual(len(transport.asked), 1)

    def test_what_never_left_is_sent_again_without_a_key_too(self):
        transport = Scripted(Failure(NeverSent(), "refused"), answer(201))
        outcome = Client(transport, policy=QUICK).send(Intent.post(URL, without_key=True))
        self.assertIsInstance(outcome, Done)

    def test_what_can_never_be_sent_is_refused(self):
        transport = Scripted(Failure(NeverSent(lasting=True), "no trust"))
        outcome = Client(transport).send(Intent.post(URL))
        self.assertEqual((outcome.why, outcome.detail), (Refusal.NEVER_SENT, "no trust"))

    def test_an_unknown_outcome_keeps_its_intent_and_is_found_out_by_its_status(self):
        known = problem(409, "outcome-unknown", retry_after="60", link=STATUS)
        intent = Intent.post(URL, headers={"Authorization": "x"}, body=b"1")
        first = Client(Scripted(known), policy=QUICK).send(intent)
        self.assertIsInstance(first, Unknown)
        self.assertIs(first.operation.intent, intent)
        self.assertIs(first.operation.evidence, known)
        self.assertEqual(first.operation.effect_id, "abc")
        transport = Scripted(
            answer(200, b'{"state": "unknown"}'),
            answer(200, b'{"state": "succeeded"}'),
            answer(201, b"1", idempotent_replayed="true"),
        )
        outcome = Client(transport, policy=QUICK).find_out(first.operation)
        self.assertEqual((outcome.replayed, outcome.sent), (True, 1))
        asked = [(it.method, it.url) for it in transport.asked]
        where = "https://api.example/.well-known/idempotency/operations/abc?of=x"
        self.assertEqual(asked, [("GET", where), ("GET", where), ("POST", URL)])
        self.assertIn(("Authorization", "x"), transport.asked[0].headers)
        self.assertEqual(transport.asked[2].headers[-2], ("Idempotency-Key", f'"{intent.key}"'))

    def test_a_refusal_after_a_restart_settles_nothing(self):
        intent = Intent.post(URL, key="written-down-before")
        outcome = Client(Scripted(answer(401))).find_out(Operation.of(intent))
        self.assertIsInstance(outcome, Unknown)

    def test_what_has_no_key_is_not_found_out_about_by_sending_it(self):
        transport = Scripted(answer(201))
        intent = Intent.post(URL, without_key=True)
        outcome = Client(transport).find_out(Operation.of(intent))
        self.assertIsInstance(outcome, Unknown)
        self.assertEqual(transport.asked, [])

    def test_a_changed_intent_is_refused(self):
        outcome = Client(Scripted(problem(422, "key-reused"))).send(Intent.post(URL))
        self.assertIsInstance(outcome, Refused)
        self.assertIs(outcome.why, Problem.KEY_REUSED)

    def test_a_key_that_is_about_to_be_forgotten_is_not_sent(self):
        policy = Policy(key_lifetime=3600.0)
        old = Intent.post(URL, key="written-down-before", made=time.time() - 3600)
        transport = Scripted()
        self.assertIs(Client(transport, policy=policy).send(old).why, Refusal.KEY_ENDS)
        again = Client(transport, policy=policy).find_out(Operation.of(old))
        self.assertIsInstance(again, Unknown)

    def test_an_asynchronous_client_does_the_same(self):
        transport = Scripted(LOST, answer(201, idempotent_replayed="true"))

        class Awaited:
            async def exchange(self, request):
                return transport.exchange(request)

        outcome = asyncio.run(AsyncClient(Awaited(), policy=QUICK).send(Intent.post(URL)))
        self.assertEqual((outcome.replayed, outcome.sent), (True, 2))

    def test_an_attempt_takes_no_longer_than_what_is_left(self):
        transport = Scripted(answer(201))
        Client(transport, policy=Policy(deadline=2.0)).send(Intent.post(URL))
        self.assertLessEqual(transport.asked[0].timeout, 2.0)
        transport = Scripted(answer(201))
        Client(transport).send(Intent.post(URL))
        self.assertEqual(transport.asked[0].timeout, 30.0)


class OneLayer(unittest.TestCase):
    def test_who_retries_says_so_below_and_who_does_not_says_nothing(self):
        for policy, field, below in ((QUICK, True, True), (Policy.once(), False, False)):
            transport = Scripted(answer(201))
            Client(transport, policy=policy).send(Intent.post(URL))
            names = dict(transport.asked[0].headers)
            self.assertEqual(names.get("Hapax-Retries") == "above", field)
            self.assertEqual(transport.retried, [below])
        self.assertFalse(retries())

    def test_under_somebody_who_retries_it_is_sent_once_and_says_so(self):
        transport = Scripted(LOST, LOST)
        with retrying():
            for policy in (QUICK, Policy.once()):
                outcome = Client(transport, policy=policy).send(Intent.post(URL))
                self.assertIsInstance(outcome, Unknown)
        said = [dict(it.headers)["Hapax-Retries"] for it in transport.asked]
        self.assertEqual(said, ["above", "above"])

    def test_a_client_within_a_client_sends_once(self):
        inner = Scripted(LOST, LOST, LOST)

        class Layer:
            def exchange(self, request):
                come = Client(inner, policy=QUICK).send(Intent.post(URL))
                assert isinstance(come, Unknown)
                return LOST

        Client(Layer(), policy=QUICK).send(Intent.post(URL))
        self.assertEqual(len(inner.asked), 3, "not nine")

    def test_it_is_known_in_the_context_and_nowhere_else(self):
        with retrying(), ThreadPoolExecutor(1) as pool:
            self.assertFalse(pool.submit(retries).result())
            self.assertTrue(pool.submit(contextvars.copy_context().run, retries).result())


class BudgetsAreExact(unittest.TestCase):
    def test_many_threads_take_what_there_is_and_no_more(self):
        budget = Budget()
        with ThreadPoolExecutor(16) as pool:
            took = list(pool.map(lambda _: budget.take(Cost.TRANSIENT), range(2000)))
        self.assertEqual(sum(it is not None for it in took), 500 // 14)
        self.assertEqual(budget.left, 500 % 14)

    def test_success_gives_back_what_was_taken_or_one_and_never_more_than_all(self):
        budget = Budget(TokenBucket(tokens=20))
        budget.succeed(None)
        self.assertEqual(budget.left, 20)
        self.assertEqual(budget.take(Cost.THROTTLED), 5)
        self.assertEqual(budget.take(Cost.TRANSIENT), 14)
        self.assertIsNone(budget.take(Cost.THROTTLED))
        budget.succeed(None)
        self.assertEqual(budget.left, 2)
        budget.succeed(14)
        self.assertEqual(budget.left, 16)

    def test_an_outage_uses_up_the_budget_of_its_destination_alone(self):
        budgets = Budgets(lambda: Budget(TokenBucket(tokens=28)))
        transport = Scripted(*[LOST] * 20)
        client = Client(transport, policy=QUICK, budgets=budgets)
        for _ in range(10):
            client.send(Intent.post(URL))
        self.assertEqual(len(transport.asked), 12, "ten, and two more")
        self.assertEqual(budgets.of("https://api.example").left, 0)
        self.assertEqual(budgets.of("https://other.example").left, 28)


class Fields(unittest.TestCase):
    # Sun, 06 Nov 1994 08:49:37 GMT
    NOW = 784_111_777.0

    def test_both_forms_of_retry_after_are_read_and_nothing_else(self):
        for value, seconds in (
            ("0", 0),
            (" 7 ", 7),
            ("9" * 5000, float("inf")),
            ("Sun, 06 Nov 1994 08:49:47 GMT", 10),
            ("Sunday, 06-Nov-94 08:49:47 GMT", 10),
            ("Sun Nov  6 08:49:47 1994", 10),
            ("Sun, 06 Nov 1994 08:49:27 GMT", 0),
            ("Mon, 06 Nov 1994 08:49:47 GMT", None),
            ("Wed, 30 Feb 1994 08:49:47 GMT", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
            ("soon", None),
            ("1, 2", None),
            ("\u0663", None),
        ):
            self.assertEqual(retry_after(value, self.NOW), seconds, value)

    def test_moments_are_read_as_rfc_3339_has_them(self):
        for value, seconds in (
            ("1994-11-06T08:49:47Z", 10),
            ("1994-11-06T08:49:47.5+00:00", 10.5),
            ("1994-11-06T08:49:27Z", 0),
            ("1994-11-06T08:49:47", None),
            ("1994-02-30T08:49:47Z", None),
            ("tomorrow", None),
        ):
            self.assertEqual(until(value, self.NOW), seconds, value)

    def test_the_status_is_asked_for_where_the_request_went_and_nowhere_else(self):
        of = "https://api.example:8443/payments?x=1"
        for link, found in (
            ('</s/1?of=2>; rel="status"', "https://api.example:8443/s/1?of=2"),
            ("<https://api.example:8443/s>; rel=status", "https://api.example:8443/s"),
            ('</d>; rel="describedby", </s>; REL="Status"', "https://api.example:8443/s"),
            ('</s>; title="x"; rel="other status"', "https://api.example:8443/s"),
            ("<http://api.example:8443/s>; rel=status", None),
            ("<https://api.example/s>; rel=status", None),
            ("<//evil.example/s>; rel=status", None),
            ("<s>; rel=status", None),
            ("</s>; rel=statusx", None),
            ("<>;;=,<", None),
        ):
            self.assertEqual(address(of, Headers.of([("Link", link)])), found, link)


class Service:
    """Takes connections, and sends each what is written down, byte by byte where it has a
    rhythm."""

    def __init__(self, *answers, rhythm=None):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/payments"
        self._answers, self._rhythm = answers, rhythm
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        for text in self._answers:
            connection, _ = self._socket.accept()
            with connection:
                connection.recv(65536)
                pieces = [text] if self._rhythm is None else [bytes([byte]) for byte in text]
                try:
                    for piece in pieces:
                        connection.sendall(piece)
                        time.sleep(self._rhythm or 0)
                except OSError:
                    pass  # It went away, as it should.
        self._socket.close()


class Blocking:
    """An asynchronous transport, waited for."""

    def __init__(self, transport):
        self._transport = transport
        self._loop = asyncio.new_event_loop()

    def exchange(self, request):
        return self._loop.run_until_complete(self._transport.exchange(request))

    def close(self):
        self._loop.run_until_complete(self._transport.aclose())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


def transports():
    """Those whose library is there; the project's own tests have both."""
    made = []
    with suppress(ImportError):
        from hapax_client.requests_transport import RequestsTransport

        made.append(("requests", RequestsTransport()))
    with suppress(ImportError):
        from hapax_client.httpx_transport import AsyncHttpxTransport, HttpxTransport

        made += [("httpx", HttpxTransport()), ("async", Blocking(AsyncHttpxTransport()))]
    return made


def exchange(transport, url, timeout=5.0, longest=1 << 20):
    return transport.exchange(Exchange("POST", url, (), b"1", timeout, longest, False))


class Transports(unittest.TestCase):
    def test_a_refused_connection_and_an_unknown_host_are_never_sent(self):
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        for name, transport in transports():
            with self.subTest(name), closing(transport):
                came = exchange(transport, f"http://127.0.0.1:{port}/")
                self.assertEqual(came.seen, NeverSent(), came)
                nobody = socket.gaierror(socket.EAI_NONAME, "nobody knows it")
                with mock.patch("socket.getaddrinfo", side_effect=nobody):
                    came = exchange(transport, "http://nobody.invalid/")
                self.assertEqual(came.seen, NeverSent(), came)

    def test_half_an_answer_is_none(self):
        whole = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nHapax-Outcome: unknown\r\n\r\n{}"
        head = whole.index(b"\r\n\r\n") + 4
        empty = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nHapax-Outcome: unknown\r\n\r\n"
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        cuts = [whole[:at] for at in (0, 7, 20, 22, 30, 41, 50, head - 2, head, head + 1)]
        cuts += [empty[:at] for at in (23, 25, 44, 60, len(empty) - 2)]
        cuts += [chunked[:at] for at in (head - 20, len(chunked) - 8, len(chunked) - 5)]
        for name, transport in transports():
            with self.subTest(name), closing(transport):
                service = Service(*cuts, whole)
                for cut in cuts:
                    came = exchange(transport, service.url)
                    self.assertEqual(getattr(came, "seen", came), Lost(), cut)
                self.assertEqual(exchange(transport, service.url).body, b"{}")

    def test_a_redirect_is_an_answer(self):
        for name, transport in transports():
            with self.subTest(name), closing(transport):
                service = Service(
                    b"HTTP/1.1 303 See Other\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"
                )
                self.assertEqual(exchange(transport, service.url).status, 303)

    def test_content_is_kept_up_to_a_length(self):
        for name, transport in transports():
            with self.subTest(name), closing(transport):
                service = Service(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd")
                came = exchange(transport, service.url, longest=3)
                self.assertEqual((came.body, came.cut), (b"abc", True))

    def test_an_answer_that_comes_byte_by_byte_is_lost_when_the_time_is_over(self):
        slow_content = b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n" + b"x" * 400
        slow_head = b"HTTP/1.1 200 OK\r\nX: " + b"x" * 400
        for name, transport in transports():
            with self.subTest(name), closing(transport):
                # The head is not bounded as a whole there.
                for text in [slow_content] if name == "httpx" else [slow_content, slow_head]:
                    service = Service(text, rhythm=0.01)
                    begun = time.monotonic()
                    came = exchange(transport, service.url, timeout=0.6)
                    self.assertEqual(came.seen, Lost())
                    self.assertLess(time.monotonic() - begun, 2.0)


if __name__ == "__main__":
    unittest.main()
