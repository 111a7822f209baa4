"""Command lines as cobra and pflag read them, with their error texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from controller.sandbox.brevsim.rules.call import CliError

Kind = Literal["bool", "string", "int", "float"]
_GO_PARSER = {"int": "strconv.ParseInt", "float": "strconv.ParseFloat", "bool": "strconv.ParseBool"}
_TRUTH = {"true": True, "1": True, "t": True, "T": True, "TRUE": True, "True": True}
_FALSEHOOD = {"false": False, "0": False, "f": False, "F": False, "FALSE": False, "False": False}


@dataclass(frozen=True, slots=True)
class Flag:
    long: str
    kind: Kind = "string"
    short: str = ""
    default: Any = None
    help: str = ""

    def label(self) -> str:
        return f"-{self.short}, --{self.long}" if self.short else f"--{self.long}"

    def read(self, text: str) -> Any:
        try:
            match self.kind:
                case "bool":
                    return {**_TRUTH, **_FALSEHOOD}[text]
                case "int":
                    return int(text)
                case "float":
                    return float(text)
        except (KeyError, ValueError) as error:
            reason = f'{_GO_PARSER[self.kind]}: parsing "{text}": invalid syntax'
            raise CliError(f'invalid argument "{text}" for "{self.label()}" flag: {reason}') from error
        return text


GLOBAL = (
    Flag("help", "bool", "h", False, "Help for Brev"),
    Flag("no-check-latest", "bool", "", False, "Do not check for the latest version when printing version"),
    Flag("user", "string", "", "", "Non root user to use for per user configuration of commands run as root"),
    Flag("version", "bool", "", False, "Print version output"),
)


@dataclass(frozen=True, slots=True)
class Parsed:
    values: dict[str, Any]
    given: frozenset[str]
    arguments: list[str]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def parse(arguments: Sequence[str], flags: Sequence[Flag]) -> Parsed:
    """Flags and arguments in any order; `--` ends the flags. Raises CliError with pflag's texts."""
    known = (*flags, *GLOBAL)
    long = {flag.long: flag for flag in known}
    short = {flag.short: flag for flag in known if flag.short}
    values = {flag.long: flag.default for flag in known}
    given: set[str] = set()
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest.extend(words)
        elif word.startswith("--"):
            flag, text = _long(word, words, long)
            values[flag.long] = flag.read(text)
            given.add(flag.long)
        elif word.startswith("-") and word != "-":
            for flag, text in _short(word, words, short):
                values[flag.long] = flag.read(text)
                given.add(flag.long)
        else:
            rest.append(word)
    return Parsed(values, frozenset(given), rest)


def _long(word: str, words: Iterator[str], known: dict[str, Flag]) -> tuple[Flag, str]:
    name, equals, value = word[2:].partition("=")
    flag = known.get(name)
    if flag is None:
        raise CliError(f"unknown flag: --{name}")
    if equals:
        return flag, value
    if flag.kind == "bool":
        return flag, "true"
    following = next(words, None)
    if following is None:
        raise CliError(f"flag needs an argument: --{name}")
    return flag, following


def _short(word: str, words: Iterator[str], known: dict[str, Flag]) -> Iterator[tuple[Flag, str]]:
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        flag = known.get(letter)
        if flag is None:
            raise CliError(f"unknown shorthand flag: '{letter}' in {word}")
        if flag.kind == "bool" and not letters.startswith("="):
            yield flag, "true"
            continue
        value = letters.removeprefix("=") or next(words, None)
        if value is None:
            raise CliError(f"flag needs an argument: '{letter}' in {word}")
        yield flag, value
        return


def help_text(usage: str, flags: Sequence[Flag]) -> str:
    """The `Flags:` part as cobra lays it out; the prose above it is ours."""
    return f"Usage:\n  brev {usage}\n\nFlags:\n{_rows(flags)}\nGlobal Flags:\n{_rows(GLOBAL)}"


def _rows(flags: Sequence[Flag]) -> str:
    rows = []
    for flag in sorted(flags, key=lambda flag: flag.long):
        head = f"  -{flag.short}, --{flag.long}" if flag.short else f"      --{flag.long}"
        rows.append((head if flag.kind == "bool" else f"{head} {flag.kind}", flag))
    width = max((len(head) for head, _ in rows), default=0)
    return "".join(f"{head.ljust(width)}   {flag.help}{_default(flag)}\n" for head, flag in rows)


def _default(flag: Flag) -> str:
    if not flag.default:
        return ""
    shown = f'"{flag.default}"' if flag.kind == "string" else str(flag.default).lower()
    return f" (default {shown})"


def exactly(parsed: Parsed, count: int) -> None:
    if len(parsed.arguments) != count:
        raise CliError(f"accepts {count} arg(s), received {len(parsed.arguments)}")


def at_least(parsed: Parsed, count: int) -> None:
    if len(parsed.arguments) < count:
        raise CliError(f"requires at least {count} arg(s), only received {len(parsed.arguments)}")
