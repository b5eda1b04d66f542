"""What only ends as a secret's name holds one where it looks drawn at random."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.redaction import found, of_command, of_environment, without_found
from e2c_dl.secret_names import REDACTED, is_secret, looks_drawn, says_little

DRAWN = (
    "sk-proj-Zq7xW9pLm3Kd8RtYab", "0123456789abcdef", "9f86d081884c7d659a2feaa0c55ad015",
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", "ghp_Zq7xW9pLm3Kd8RtYabZq7xW9pLm3Kd8RtYab",
)  # fmt: skip
ORDINARY = (
    "batch_size", "momentum_buffer", "conv1.weight", "conv2d_1x1_weight_of_block_3", "BatchNorm2dRunningMean",
    "ResNet50FeatureExtractor", "imagenet-ilsvrc2012-train", "/srv/data/run_2024/part-0001.parquet", "*.parquet", "12",
    "re.compile", "20240102T030405Z", "1234567890123456", "2024-01-02T03:04:05", "worker_0_of_16_step_100000",
    "allreduce", "gradients.edge1.v2", "two words of several letters",
)  # fmt: skip


@pytest.mark.parametrize("value", DRAWN)
def test_what_is_drawn_is_hidden_at_a_constants_name(value: str) -> None:
    assert looks_drawn(value)
    for said in (f"MAPS_KEY={value}", f'MY_PAT: "{value}"', f"export MAPS_KEY={value}"):
        assert value not in without_found(said)
    assert of_environment({"MAPS_KEY": value}) == {"MAPS_KEY": (value,)}
    assert of_command(["m.py", f"MAPS_KEY={value}"]) == ("m.py", f"MAPS_KEY={REDACTED}")


@pytest.mark.parametrize("value", ORDINARY)
def test_what_is_a_name_a_path_or_a_date_stays_there(value: str) -> None:
    assert not looks_drawn(value)
    for said in (f"STATE_KEY={value}", f'STATE_KEY = "{value}"', f"FILE_PAT: {value}"):
        assert without_found(said) == said
    assert of_environment({"ROUTING_KEY": value}) == {}
    assert is_secret(value, "API_KEY") and is_secret(value, "SECRET_KEY"), "names that say more"


def test_only_the_end_of_a_name_says_little() -> None:
    assert all(map(says_little, ("STATE_KEY", "FILE_PAT", "OPENAI_KEY", "MAPS_KEY_2")))
    assert not any(map(says_little, ("API_KEY", "OPENAI_API_KEY", "WANDB_KEY", "MY_TOKEN", "password", "state", "KEY")))


def test_of_a_url_at_a_constants_name_its_password_is_hidden() -> None:
    assert of_environment({"BROKER_KEY": "amqp://me:planted-1@host/x"}) == {"BROKER_KEY": ("planted-1",)}


@given(st.binary(min_size=16, max_size=40).map(bytes.hex).filter(re.compile(r"\d[a-f].*\d[a-f].*[a-f].*[a-f]").search))
def test_hex_of_anything_is_drawn(value: str) -> None:
    assert looks_drawn(value) and looks_drawn(value.upper())
    assert list(found(f"X_KEY={value}"))


@given(
    st.lists(st.from_regex(r"[a-z]{1,12}[0-9]{0,3}", fullmatch=True), min_size=1, max_size=9), st.sampled_from("_-./")
)
def test_words_with_something_between_are_not(words: list[str], between: str) -> None:
    assert not looks_drawn(between.join(words))
