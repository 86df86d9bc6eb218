"""gram.fit: trains a machine by the processes that a launcher has started

    torchrun --nproc-per-node 2 -m gram.fit data.npy --target 28 -o model.gram --leaf-rows 50000
    mpirun -n 4 python -m gram.fit data.csv --target price -o model.gram

Under torchrun each process has the GPU of its local rank, and the ranks find each other by the
process group of torch.distributed (gram.Communicator.from_torch); under mpirun or srun they compute
on CPUs (gram.Communicator).  Every process reads the table: a .npy matrix, whose columns are 0, 1,
.., or what pandas reads as Parquet, Feather or CSV.  Options of gram.Machine.fit follow by their
names, such as --leaf-rows 50000 and --search -1.  The first rank writes the model.
"""

import argparse
import contextlib
import os
import sys

import gram


def _read(path):
    """The columns of a file, by name."""
    if path.endswith(".npy"):
        import numpy

        array = numpy.load(path, mmap_mode="r", allow_pickle=False)
        if array.ndim != 2:
            raise ValueError(f"{path} has {array.ndim} dimensions, expected a matrix")
        return {str(i): array[:, i] for i in range(array.shape[1])}
    import pandas

    if path.endswith((".parquet", ".pq")):
        frame = pandas.read_parquet(path)
    elif path.endswith((".feather", ".arrow")):
        frame = pandas.read_feather(path)
    else:
        frame = pandas.read_csv(path, sep="\t" if path.endswith(".tsv") else ",")
    return {str(name): frame[name] for name in frame.columns}


def _launched():
    """Which launcher has started this process: "torch", "mpi", or None."""
    names = os.environ
    if "TORCHELASTIC_RUN_ID" in names or {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= names.keys():
        return "torch"
    if any(name in names for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK")):
        return "mpi"
    return None


@contextlib.contextmanager
def _ranks(device):
    """The communicator of the processes, or None for one alone."""
    launcher = _launched()
    if launcher == "mpi":
        with gram.Communicator() as ranks:
            yield ranks
    elif launcher == "torch" and int(os.environ["WORLD_SIZE"]) > 1:
        import torch

        local = int(os.environ.get("LOCAL_RANK", "0"))
        device = device or f"cuda:{local}"
        torch.cuda.set_device(device)
        torch.distributed.init_process_group("cpu:gloo,cuda:nccl")
        try:
            # A search takes as long as it takes: the others wait for it.
            with gram.Communicator.from_torch(device=device, timeout=float("inf")) as ranks:
                yield ranks
        finally:
            torch.distributed.destroy_process_group()
    else:
        yield None


def _value(text):
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _options(words):
    """Options of gram.Machine.fit: --leaf-rows 50000 is leaf_rows=50000."""
    options = {}
    words = [part for word in words for part in (word.split("=", 1) if "=" in word else [word])]
    for name, value in zip(words[::2], [*words[1::2], None], strict=False):
        if not name.startswith("--") or value is None:
            raise ValueError(f"{name}: expected --name value, for an option of gram.Machine.fit")
        options[name[2:].replace("-", "_")] = _value(value)
    return options


def _parse(arguments):
    parser = argparse.ArgumentParser(
        "gram.fit", description=__doc__.split("\n", 1)[0], allow_abbrev=False,
        epilog="Other options are those of gram.Machine.fit: --leaf-rows 50000 --search -1",
    )  # fmt: skip
    parser.add_argument("data", help="a .npy matrix, Parquet, Feather or CSV")
    parser.add_argument("--target", "-y", required=True, help="the column to predict")
    parser.add_argument("--output", "-o", required=True, help="the model file to write")
    parser.add_argument("--device", help="of every rank (default: the GPU of the local rank)")
    return parser.parse_known_args(arguments)


def _columns(given):
    columns = _read(given.data)
    if given.target not in columns:
        names = ", ".join(columns)
        raise ValueError(f'{given.data} has no column "{given.target}"; the columns are {names}')
    return columns


def _fit(given, columns, options, ranks):
    options = dict(options)
    if ranks is None and given.device:
        options["device"] = given.device.split(",") if "," in given.device else given.device
    return gram.Machine.fit(columns, given.target, communicator=ranks, **options)


class _Stopped(Exception):
    """This rank, or another one, has failed, and has said so."""


def _try(ranks, told, function, *arguments):
    """What a function returns.  Ranks then agree, unless they have been told by the function."""
    found = wrong = None
    try:
        found = function(*arguments)
    except (ArithmeticError, ImportError, KeyError, MemoryError, OSError, RuntimeError, TypeError,
            ValueError) as e:  # fmt: skip
        wrong = e
        rank = "" if ranks is None else f"rank {ranks.rank}: "
        print(f"gram.fit: {rank}{e}", file=sys.stderr)
    if ranks is not None and not told:
        try:
            ranks.agree(wrong is None)
        except ValueError as e:
            wrong = wrong or e
    if wrong is not None:
        raise _Stopped from wrong
    return found


def _save(machine, path):
    if machine is not None:  # of the first rank
        machine.save(path)


def main(arguments=None):
    """Fits as the command line says; returns its exit status.

    >>> import gram.fit
    >>> gram.fit.main(["no-such-table.npy", "--target", "0", "--output", "model.gram"])
    1
    """
    given, rest = _parse(arguments)
    try:
        options = _try(None, True, _options, rest)
    except _Stopped:
        return 2
    with _ranks(given.device) as ranks:
        try:
            columns = _try(ranks, False, _columns, given)
            machine = _try(ranks, True, _fit, given, columns, options, ranks)
            _try(ranks, False, _save, machine, given.output)
        except _Stopped:
            return 1
        if machine is not None:
            print(machine.description)
    return 0


if __name__ == "__main__":
    sys.exit(main())
