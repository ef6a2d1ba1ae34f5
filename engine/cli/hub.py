"""`duotail models search`, `show`, `list` and `download`: the model hub, and what was fetched."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from engine.cli import hub_report
from engine.cli.exit_code import ExitCode
from engine.cli.options import add_options, one_or_more
from engine.errors import UserFixable
from engine.hub.messages import Access, Describe, Order, Packaging, Repository, Search, Variant
from engine.hub.remote.addresses import Address, address_in, endpoint_of, is_endpoint, prepare
from engine.hub.remote.fault_texts import about, explained
from engine.hub.remote.faults import trouble_of
from engine.hub.starter import user_data
from engine.hub.token import TokenStore
from engine.language import listed, tr

if TYPE_CHECKING:
    from engine.hub.remote.connection import Connection

_LISTED = 12

Told = TypeVar("Told")


def add_parser(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the actions."""
    search = actions.add_parser("search", help=tr("search for models on the hub"))
    search.add_argument(
        "words",
        nargs="*",
        metavar="WORDS",
        help=tr("words to search for (default: the most downloaded models)"),
    )
    search.add_argument(
        "--packaging",
        choices=[str(each) for each in Packaging],
        help=tr("show only models in this file format"),
    )
    search.add_argument(
        "--sort",
        default=Order.DOWNLOADS,
        choices=[str(each) for each in Order],
        help=tr("order of the results (default: by downloads)"),
    )
    search.add_argument(
        "--limit",
        type=one_or_more,
        default=20,
        metavar="N",
        help=tr("show at most this many models"),
    )
    _add_options(search, _search)
    show = actions.add_parser(
        "show", help=tr("show the variants and licence of a model on the hub")
    )
    _add_repository(show)
    _add_options(show, _show)
    shelf = actions.add_parser("list", help=tr("list all models on this computer"))
    shelf.add_argument(
        "--cache",
        metavar="DIR",
        help=tr("folder of downloaded models (default: the shared Hugging Face cache)"),
    )
    add_options(shelf, "--json")
    shelf.set_defaults(run=_list)
    download = actions.add_parser("download", help=tr("download a model from the hub"))
    _add_repository(download)
    download.add_argument(
        "--variant",
        metavar="NAME",
        help=tr("variant to download, such as Q4_K_M; “duotail models show” lists them"),
    )
    _add_options(download, _download)


def data_folder(arguments: argparse.Namespace) -> Path:
    """Return the user's data folder: by option, by environment, or the usual one."""
    return Path(arguments.data) if arguments.data else user_data()


def _add_repository(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "repo",
        metavar="OWNER/NAME",
        help=tr("the model's name on the hub, or the address of its page"),
    )
    parser.add_argument(
        "--revision", metavar="REV", help=tr("a commit, branch or tag (default: the main branch)")
    )


def _add_options(
    parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], ExitCode]
) -> None:
    parser.add_argument(
        "--endpoint",
        type=_endpoint,
        metavar="URL",
        help=tr("address of another hub (also: HF_ENDPOINT)"),
    )
    parser.add_argument(
        "--cache",
        metavar="DIR",
        help=tr("folder of downloaded models (default: the shared Hugging Face cache)"),
    )
    parser.add_argument(
        "--hf-login", action="store_true", help=tr("use the token that “hf auth login” keeps")
    )
    add_options(parser, "--json")
    parser.set_defaults(run=run)


def _endpoint(text: str) -> str:
    if not is_endpoint(text):
        raise ValueError(text)
    return text


def _access(arguments: argparse.Namespace) -> Access:
    token = TokenStore(of_other_program=arguments.hf_login).get().token
    cache = str(Path(arguments.cache).expanduser().absolute()) if arguments.cache else None
    return Access(arguments.endpoint, token, cache=cache)


def _search(arguments: argparse.Namespace) -> ExitCode:
    packaging = None if arguments.packaging is None else Packaging(arguments.packaging)
    words, order = " ".join(arguments.words), Order(arguments.sort)
    asked = Search(_access(arguments), words, packaging, order, arguments.limit)

    def answer(connection: Connection) -> hub_report.Models:
        from engine.hub.remote.queries import search

        return search(connection, asked).found

    found = _answered(asked, answer)
    hub_report.write_found(found, as_json=arguments.json)
    return ExitCode.DONE


def _show(arguments: argparse.Namespace) -> ExitCode:
    repository, address = _described(arguments, _access(arguments))
    page = f"{endpoint_of(Access(arguments.endpoint))}/{address.repo}"
    hub_report.write_repository(repository, page, as_json=arguments.json)
    return ExitCode.DONE


def _list(arguments: argparse.Namespace) -> ExitCode:
    from engine.hub.shelf.shelf import ModelShelf

    cache = Path(arguments.cache).expanduser() if arguments.cache else None
    models = ModelShelf(data_folder(arguments), cache).models()
    hub_report.write_kept(models, as_json=arguments.json)
    return ExitCode.DONE


def _download(arguments: argparse.Namespace) -> ExitCode:
    from engine.cli.hub_download import download

    access = _access(arguments)
    repository, address = _described(arguments, access)
    variant = chosen(repository, address, arguments.variant)
    path = download(repository, variant, access, data_folder(arguments))
    hub_report.write_fetched(repository, variant, path, as_json=arguments.json)
    return ExitCode.DONE


def _described(arguments: argparse.Namespace, access: Access) -> tuple[Repository, Address]:
    address = address_in(arguments.repo, endpoint_of(access)) or Address(arguments.repo)
    asked = Describe(access, address.repo, arguments.revision or address.revision)

    def answer(connection: Connection) -> Repository:
        from engine.hub.remote.queries import describe

        return describe(connection, asked)

    return _answered(asked, answer), address


def _answered(asked: Search | Describe, answer: Callable[[Connection], Told]) -> Told:
    """Return the hub's answer.

    Raises:
        UserFixable: the question failed; cause and remedy in words.
    """
    prepare(asked.access)
    from engine.hub.remote.connection import Connection  # reads the environment just now set

    try:
        return answer(Connection(asked.access))
    except Exception as error:
        raise explained(trouble_of(error), about(asked)) from error


def chosen(repository: Repository, address: Address, wanted: str | None) -> Variant:
    """The variant that is meant: by name, by a file of it, or the only one."""
    name = wanted or address.variant
    variants = repository.variants
    if name is not None:
        found = [each for each in variants if each.name.lower() == name.lower()]
    elif address.file is not None:
        found = [each for each in variants if address.file in {file.path for file in each.files}]
    else:
        found = list(variants)
    if len(found) == 1:
        return found[0]
    repo = repository.found.repo
    if not variants:
        raise UserFixable(
            tr("{repo} has no model that Duotail can run.").format(repo=repo),
            tr("Choose another model."),
            "\n".join(repository.unusable),
        )
    names = [each.name for each in variants]
    more = ["..."] * (len(names) > _LISTED)
    if name is not None and not found:
        cause = tr("{repo} has no variant “{name}”.").format(repo=repo, name=name[:60])
    else:
        cause = tr("{repo} has several variants.").format(repo=repo)
    raise UserFixable(
        cause,
        tr("Choose one with --variant: {names}.").format(names=listed(names[:_LISTED] + more)),
    )
