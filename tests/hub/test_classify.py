import pytest

from app.hub.classify import MAX_MESSAGE, Outcome, classify


def code(name: str) -> dict[str, str]:
    return {"x-error-code": name}


def message(text: str) -> dict[str, str]:
    return {"x-error-message": text}


@pytest.mark.parametrize(
    ("status", "headers", "outcome"),
    [
        (200, {}, Outcome.OK),
        (206, {}, Outcome.OK),
        (404, code("RevisionNotFound"), Outcome.REVISION_MISSING),
        (404, code("EntryNotFound"), Outcome.FILE_MISSING),
        (401, code("GatedRepo"), Outcome.GATED),
        (403, code("GatedRepo"), Outcome.GATED),
        (403, message("Access to this resource is disabled."), Outcome.DISABLED),
        (404, code("RepoNotFound"), Outcome.REPO_MISSING),
        (401, message("Invalid username or password."), Outcome.REPO_MISSING),
        (401, {}, Outcome.REPO_MISSING),
        (401, message("Invalid credentials in Authorization header"), Outcome.BAD_TOKEN),
        (400, {}, Outcome.BAD_REQUEST),
        (403, {}, Outcome.FORBIDDEN),
        (429, {}, Outcome.RATE_LIMITED),
        (416, {}, Outcome.RANGE_REFUSED),
        (408, {}, Outcome.TRANSIENT),
        (500, {}, Outcome.TRANSIENT),
        (502, {}, Outcome.TRANSIENT),
        (503, {}, Outcome.TRANSIENT),
        (504, {}, Outcome.TRANSIENT),
        (404, {}, Outcome.UNEXPECTED),
        (418, {}, Outcome.UNEXPECTED),
        (304, {}, Outcome.UNEXPECTED),
    ],
)
def test_each_answer_has_its_kind(status: int, headers: dict[str, str], outcome: Outcome) -> None:
    assert classify(status, headers).outcome is outcome


def test_a_code_counts_before_a_message_and_a_message_before_the_status() -> None:
    disabled = message("Access to this resource is disabled.")
    assert classify(401, code("GatedRepo") | disabled).outcome is Outcome.GATED
    assert classify(404, code("RepoNotFound") | disabled).outcome is Outcome.DISABLED


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": "no"}', "no"),
        (b'{"error": ["a", "b"]}', "a; b"),
        (b'{"errors": [{"message": "a"}, {"message": "b"}]}', "a; b"),
        (b'{"error_description": "no"}', "no"),
        (b'{"error": {"deep": 1}}', ""),
        (b"<html>no</html>", ""),
        (b"\xff\xfe", ""),
    ],
)
def test_the_shapes_of_an_error_body(body: bytes, said: str) -> None:
    assert classify(400, {}, body).message == said


def test_plain_text_is_a_message_and_all_messages_are_bounded_and_printable() -> None:
    plain = {"content-type": "text/plain"}
    assert classify(500, plain, b"down\r\nfor \x1b[31m now").message == "down for [31m now"
    long = classify(500, message("x" * 10_000)).message
    assert len(long) == MAX_MESSAGE
    told = classify(500, {"x-request-id": "r1", "x-hf-warning": "auth; log in"}).facts()
    assert told == {"hub_status": 500, "hub_request_id": "r1", "hub_warning": "auth; log in"}
