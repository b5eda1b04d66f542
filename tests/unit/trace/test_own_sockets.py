"""Connections of this process are found, read and left alone."""

from __future__ import annotations

import os
import socket

from socket_pairs import connected, cookie, send

from e2c_dl.trace.propagation.sockets import OwnSockets
from e2c_dl.trace.propagation.sockets.own import cookie_of


def test_established_connections_are_found_and_no_others() -> None:
    own = OwnSockets()
    with socket.create_server(("127.0.0.1", 0)), socket.socketpair()[0], connected() as (first, second):
        found = {one.cookie: one for one in own.rescan()}
        assert {cookie(first), cookie(second)} <= found.keys()
        assert found[cookie(first)].remote == found[cookie(second)].local == second.getsockname()
        assert own.rescan() == []


def test_what_becomes_a_connection_later_is_found_then() -> None:
    own = OwnSockets()
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as later:
        own.rescan()
        later.connect(listening.getsockname())
        assert cookie(later) in {one.cookie for one in own.rescan()}
        with listening.accept()[0] as accepted:
            assert {one.cookie for one in own.rescan()} == {cookie(accepted)}


def test_one_address_alone_is_looked_at_where_it_is_asked_for() -> None:
    with connected(), connected() as (first, _):
        own, other = OwnSockets("127.0.0.1"), OwnSockets("127.0.0.2")
        assert cookie(first) in {one.cookie for one in own.rescan()}
        assert other.rescan() == [] == list(other.read())


def test_a_mapped_address_is_that_of_both_ends() -> None:
    with socket.socket(socket.AF_INET6) as listening:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind(("::", 0))
        listening.listen()
        with socket.create_connection(("127.0.0.1", listening.getsockname()[1])) as first:
            accepted = listening.accept()[0]
            with accepted:
                found = {one.cookie: one for one in OwnSockets().rescan()}
                assert found[cookie(accepted)].local == found[cookie(first)].remote == first.getpeername()


def test_looking_changes_no_connection() -> None:
    socket.setdefaulttimeout(30.0)  # of which Python makes every socket non-blocking that it is told of
    try:
        with connected() as pair:
            own = OwnSockets()
            os.set_blocking(pair[0].fileno(), True)
            own.rescan()
            assert list(own.read())
            assert os.get_blocking(pair[0].fileno())
            del own
            send(pair, 10)  # it was not closed with what had looked at it
    finally:
        socket.setdefaulttimeout(None)


def test_a_close_says_goodbye_while_it_is_looked_at() -> None:
    with connected() as (first, second):
        own = OwnSockets()
        own.rescan()
        first.close()
        second.settimeout(60)
        assert second.recv(1) == b""


def test_a_number_that_is_used_again_is_not_taken_for_the_connection_it_was() -> None:
    own = OwnSockets()
    with connected() as before, connected() as after:
        send(before, 1000)
        own.rescan()
        gone = cookie(before[0])
        os.dup2(after[0].fileno(), before[0].fileno())
        send(after, 5000)
        assert gone not in {cookie_of(told) for told, *_ in own.read()}
        own.rescan()
        assert [cookie_of(told) for told, *_ in own.read()].count(cookie(after[0])) == 1  # of its two numbers


def test_small_connections_are_left_out_where_iterations_end() -> None:
    own = OwnSockets()
    with connected() as large, connected() as small:
        own.rescan()
        own.small({cookie(one) for one in small})

        def seen(*, ends: bool) -> set[int]:
            return {cookie_of(told) for told, *_ in own.read(ends=ends)} & {cookie(one) for one in (*large, *small)}

        assert seen(ends=True) == {cookie(one) for one in large}
        assert seen(ends=False) == {cookie(one) for one in (*large, *small)}
