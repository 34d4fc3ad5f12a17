# SPDX-License-Identifier: Apache-2.0
"""Names of variables are judged by their words."""

from __future__ import annotations

import pytest

from stepguard.archive.redaction import load_rules
from stepguard.archive.redaction.names import Harmless, Names, Variable, words_of

RULES = load_rules(None, ())
NAMES = Names(RULES.variable, RULES.harmless)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("HF_TOKEN", ("HF", "TOKEN")),
        ("hfToken", ("HF", "TOKEN")),
        ("HFToken", ("HF", "TOKEN")),
        ("APIKey", ("API", "KEY")),
        ("S3_SECRET2", ("S", "3", "SECRET", "2")),
        ("x-api-key", ("X", "API", "KEY")),
        ("TOKENIZERS_PARALLELISM", ("TOKENIZERS", "PARALLELISM")),
        ("", ()),
        ("__", ()),
    ],
)
def test_a_name_is_split_into_its_words(name: str, words: tuple[str, ...]) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "hf_token",
        "hfToken",
        "WANDB_API_KEY",
        "wandbApiKey",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "SecretAccessKey",
        "AccountKey",
        "PGPASSWORD",
        "MYSQL_PWD",
        "SSHPASS",
        "DB_PASS",
        "CLIENT_SECRET",
        "SECRET_KEY_BASE",
        "SLURM_JWT",
        "X-Auth-Token",
        "API_KEY_2",
        "GITHUB_TOKEN_1",
        "private_key",
        "GPG_PASSPHRASE",
        "VAULT_SECRET_ID",
        "SINGULARITYENV_API_KEY",
        "PASSWORD",
        "secret",
        "TOKEN",
        "MYPASS",
        "dbpass",
        "NEXUS_AUTH",
        "X_KEY",
    ],
)
def test_a_secret_by_name(name: str) -> None:
    assert NAMES.rule(name) is not None


@pytest.mark.parametrize(
    "name",
    [
        "TOKENIZERS_PARALLELISM",
        "HF_TOKEN_PATH",
        "MASTER_PORT",
        "MASTER_ADDR",
        "SSH_AUTH_SOCK",
        "KEYBOARD_LAYOUT",
        "MAX_TOKENS",
        "NUM_KEYS",
        "PUBLIC_KEY",
        "API_KEY_FILE",
        "SECRETS_DIR",
        "TOKEN_URL",
        "pad_token",
        "eos_token_id",
        "tokens_per_second",
        "token_type_ids",
        "key",
        "keys",
        "PWD",
        "OLDPWD",
        "BYPASS",
        "COMPASS",
        "PASSES",
        "SECRETARY",
        "AUTHOR",
        "MONKEY",
        "bos_token",
        "next_token",
        "forward_pass",
        "private_key_id",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN",
        "SECRET_NAME",
        "TOKENS",
        "password-stdin",
        "KEY",
        "SORT_KEY",
        "X_KEY_COLUMNS",
        "AUTH_BACKEND",
        "TRESPASS",
        "LOWPASS",
    ],
)
def test_no_secret_by_name(name: str) -> None:
    assert NAMES.rule(name) is None


def test_a_name_beyond_all_measure_is_nobodys() -> None:
    assert NAMES.rule("A" * 200 + "_TOKEN") is None


def test_what_it_remembers_is_bounded() -> None:
    names = Names([Variable("t", ("TOKEN",), "here")], [Harmless("h", "here", ends=("PATH",))])
    for number in range(25_000):
        assert names.rule(f"A{number}_TOKEN") is not None
        assert names.rule(f"A{number}_TOKEN_PATH") is None
    assert len(names._remembered) <= 10_000
