"""What Python programs send, and what a microcontroller does: each line says the name of an event
and what was heard."""

import http.client
import json
import socket
import sys
import urllib.request
from urllib.parse import urlsplit

import requests

TO = sys.argv[1]
HOST, PORT, PATH = urlsplit(TO).hostname, urlsplit(TO).port, urlsplit(TO).path


def body(name):
    event = {"eventId": name, "deviceId": "client"}
    return json.dumps(event, separators=(",", ":")).encode()


def say(name, status, text):
    print(name, status, text.strip(), flush=True)


def with_requests():
    with requests.Session() as session:
        for name in ["requests-1", "requests-2"]:
            answer = session.post(TO, data=body(name), timeout=10)
            say(name, answer.status_code, answer.text)
        name = "requests-chunked"
        answer = session.post(TO, data=iter([body(name)[:9], body(name)[9:]]), timeout=10)
        say(name, answer.status_code, answer.text)


def with_the_library():
    name = "http-client"
    connection = http.client.HTTPConnection(HOST, PORT, timeout=10)
    connection.request("PUT", PATH, body(name))
    answer = connection.getresponse()
    say(name, answer.status, answer.read().decode())
    name = "urllib"
    with urllib.request.urlopen(TO, body(name), timeout=10) as answer:
        say(name, answer.status, answer.read().decode())


class Board:
    """One write a line, each a packet of its own, as Client.println() does on an Arduino."""

    def __init__(self):
        self.socket = socket.create_connection((HOST, PORT), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers = self.socket.makefile("rb")

    def println(self, *lines):
        for line in lines:
            self.socket.sendall(line if isinstance(line, bytes) else line.encode())
            self.socket.sendall(b"\r\n")

    def hear(self, name):
        status = int(self.answers.readline().split()[1])
        length = 0
        while line := self.answers.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        say(name, status, self.answers.read(length).decode())


def with_a_board():
    board = Board()
    # The println after the body sends two bytes more than the length says.
    for name in ["board-1", "board-2"]:
        board.println(f"POST {PATH} HTTP/1.1", "Host: gateway")
        board.println(f"Content-Length: {len(body(name))}", "", body(name))
        board.hear(name)
    name = "board-http10"
    board = Board()
    board.println(f"POST {PATH} HTTP/1.0", f"Content-Length: {len(body(name))}", "", body(name))
    board.hear(name)
    name = "board-close"
    board = Board()
    board.println(f"POST {PATH} HTTP/1.1", "Connection: close", "")
    board.socket.sendall(body(name))
    board.socket.shutdown(socket.SHUT_WR)
    board.hear(name)
    # It knows of no length, and it waits.
    name = "board-no-length"
    board = Board()
    board.println(f"POST {PATH} HTTP/1.1", "Host: gateway", "")
    board.socket.sendall(body(name))
    board.hear(name)


with_requests()
with_the_library()
with_a_board()
