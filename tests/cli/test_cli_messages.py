"""test_cli_messages.py - mistakes with tables, columns, options and formats: what is said then"""

import gzip
import re

import numpy as np
import pytest
from gram_cli import BAD_DATA, SOURCE, USAGE, gram, gram_json, gram_run, refusal, rows_of

FIT = ["-y", "y", "-o", "m", "-i", "0"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Writes t.csv in a folder of its own, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    return lambda text, name="t.csv": (tmp_path / name).write_text(text)


SPLITS = [[], ["--holdout", "0.3"], ["--holdout", "0.3", "--seed", "5"]]


@pytest.mark.parametrize("more", SPLITS, ids=" ".join)
def test_messages_name_the_line_whatever_the_split(table, more):
    """A blank line, and a field of two lines, come before the bad one."""
    rows = 'x,"1\n2",1\n\n2,k,3\n' + "".join(f"{i},k,{i}\n" for i in range(20))
    table("a,b,y\n" + rows.replace("x,", "1,").replace("7,k,7", "inf,k,7"))
    assert refusal("fit", "t.csv", *FIT, *more, status=BAD_DATA) == (
        'gram fit: t.csv:13: column "a": the value is infinity, expected a number or a missing '
        "value"
    )
    table("a,b,y\n" + rows.replace("x,", "NA,").replace("7,k,7", "7,k,-inf"))
    said = refusal("fit", "t.csv", *FIT, *more, status=BAD_DATA)
    assert said.startswith('gram fit: t.csv:13: column "y": the value is infinity, expected')
    table("a,w,y\n1,1,1\n2,0,NA\n3,-2,1\n" + "5,1,2\n" * 9)
    said = refusal("fit", "t.csv", *FIT, *more, "--weights", "w", status=BAD_DATA)
    assert said == 'gram fit: t.csv:4: column "w": the weight is -2, expected more than 0'
    table("a,y\n1,1\n2,NA\n3,-2\n" + "5,2\n6,3\n" * 5)
    for name, expected in (("log", "more than 0"), ("sqrt", "at least 0")):
        said = refusal("fit", "t.csv", *FIT, *more, "--transform", name, status=BAD_DATA)
        end = f"the target is -2, expected {expected} for this --transform"
        assert said == f'gram fit: t.csv:4: column "y": {end}'


def test_messages_name_the_row_of_an_array(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.arange(40.0).reshape(20, 2)
    x[11, 0] = np.inf
    np.save("x.npy", x)
    for more in SPLITS:
        said = refusal("fit", "x.npy", "-y", "1", "-o", "m", *more, status=BAD_DATA)
        row = "x.npy: row 11, counted from 0"
        assert said.startswith(f'gram fit: {row}: column "0": the value is infinity')


def test_infinity_after_a_missing_value(table):
    table("a,y\nNA,1\ninf,2\n3,3\n")
    said = refusal("fit", "t.csv", *FIT, status=BAD_DATA)
    assert 't.csv:3: column "a": the value is infinity' in said
    table("a,y\nNA,1\ninf,2\nabc,3\n4,4\n")  # a column of categories, one of which is called inf
    gram("fit", "t.csv", *FIT)
    table("a,b\nNA,inf\n0,0\n")
    for p in ("0", "0.5", "1", "1.3", "2", "3", "inf"):
        assert gram("cdist", "t.csv", "-p", p) == "nan,nan\nnan,0\n"


def test_predict_and_score_name_the_line_too(table):
    table("a,y\n" + "".join(f"{i},{i}\n" for i in range(9)))
    gram("fit", "t.csv", *FIT)
    table("a,y\n1,2\n\ninf,3\n")
    for command in ("predict", "score"):
        said = refusal(command, "m", "t.csv", status=BAD_DATA)
        assert said.startswith(f'gram {command}: t.csv:4: column "a": the value is infinity,')


def test_columns_that_may_have_been_meant(table):
    table("Zone,price,y\n1,2,3\n2,3,4\n3,4,5\n")
    gram("fit", "t.csv", *FIT)
    said = refusal("fit", "t.csv", "-y", "pirce", "-o", "n", status=BAD_DATA)
    assert said.endswith('no column "pirce" (--target); the columns are Zone, price, y; '
                         'did you mean "price"?')
    table("zone,price,y\n1,2,3\n")
    said = refusal("predict", "m", "t.csv", status=BAD_DATA)
    assert said.endswith('no column "Zone", which the model needs; the columns are zone, price, y; '
                         'did you mean "zone"?')
    table("extent,price,y\n1,2,3\n")
    assert "did you mean" not in refusal("predict", "m", "t.csv", status=BAD_DATA)


def test_a_first_line_of_data_is_suspected(table):
    table("0,0\n3,4\n1,7\n")
    said = refusal("fit", "t.csv", *FIT, status=BAD_DATA)
    assert said.endswith('two columns are called "0"; if the first line is data, use --no-header')
    table("5,6\n3,4\n1,7\n")
    said = refusal("fit", "t.csv", "-y", "1", "-o", "m", status=BAD_DATA)
    assert said.endswith("the columns are 5, 6; if the first line is data, use --no-header")
    gram("fit", "t.csv", "-y", "1", "-o", "m", "-i", 0, "--no-header")
    table("a,a\n1,2\n")
    assert refusal("fit", "t.csv", *FIT, status=BAD_DATA).endswith('two columns are called "a"')


def test_delimiters_that_are_found_or_named(table):
    table("a|b|y\n" + "".join(f"{i}|x,x|{i % 4}\n" for i in range(8)))
    assert "from 2 features, 8 rows" in gram("fit", "t.csv", *FIT)
    table("a b y\n1 2 3\n")
    said = refusal("fit", "t.csv", *FIT, status=BAD_DATA)
    assert said.endswith("; fields are separated by a comma, a tab, a semicolon, | or what "
                         "--delimiter says")
    table("a,y\n1,2\n# a remark\n3,4\n")
    said = refusal("fit", "t.csv", *FIT, status=BAD_DATA)
    assert said == ("gram fit: t.csv:3: 1 field, but the first line has 2; lines that begin with "
                    "# are not comments")


FOREIGN = [
    (gzip.compress(gzip.compress(b"a,y\n1,2\n")), "gzip", "zcat 'x.dat' | gram COMMAND -"),
    (b"BZh91AY", "bzip2", "bzcat 'x.dat' | gram COMMAND -"),
    (b"\xfd7zXZ\0\0", "xz", "xzcat 'x.dat' | gram COMMAND -"),
    (b"\x28\xb5\x2f\xfd\0", "zstd", "zstdcat 'x.dat' | gram COMMAND -"),
    (b"FEA1\0\0", "Feather of version 1", 'pandas.read_feather("x.dat").to_csv('),
    (b"PK\x03\x04\0", "zip or a spreadsheet", "unpack 'x.dat', or save the sheet as CSV"),
    (b"SQLite format 3\0", "a SQLite database", "sqlite3 -header -csv 'x.dat'"),
    (b"\x89HDF\r\n", "HDF5", "make CSV or .npy of 'x.dat' first"),
]


@pytest.mark.parametrize("content,name,advice", FOREIGN, ids=[row[1] for row in FOREIGN])
def test_other_formats_are_named(tmp_path, monkeypatch, content, name, advice):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.dat").write_bytes(content)
    for command in (["fit", "x.dat", *FIT], ["cdist", "x.dat"]):
        said = refusal(*command, status=BAD_DATA)
        assert said.startswith(f"gram {command[0]}: x.dat: this is {name}, not text; ")
        assert advice in said
    with open("x.dat", "rb") as file:
        said = refusal("cdist", "-", status=BAD_DATA, stdin=file)
    assert f"standard input: this is {name}, not text; " in said


ENDINGS = "parquet feather arrow xlsx gz zip npz h5 mat pkl PARQUET".split()


@pytest.mark.parametrize("ending", ENDINGS)
def test_outputs_of_formats_that_are_not_written(table, ending):
    table("a,y\n1,2\n3,4\n5,7\n")
    gram("fit", "t.csv", *FIT)
    output = f"o.{ending}"
    for command in (["cdist", "t.csv"], ["predict", "m", "t.csv"], ["importance", "m"]):
        said = refusal(*command, "-o", output, status=USAGE)
        assert f"--output is {output}, but files of type {ending.lower()} cannot" in said
        assert "be written; expected .csv" in said
    gram("cdist", "t.csv", "-o", output, "--format", "csv")
    assert rows_of(open(output, encoding="ascii").read())[0][0] == "0"


def test_importances_by_the_end_of_the_name(table):
    table("a,y\n1,2\n3,4\n5,7\n")
    gram("fit", "t.csv", *FIT)
    for name in ("i.csv", "i.tsv", "i.json"):
        assert gram("importance", "m", "-o", name) == ""
    read = {name: open(name, encoding="ascii").read() for name in ("i.csv", "i.tsv", "i.json")}
    assert read["i.csv"] == "feature,importance\na,1\n"
    assert read["i.tsv"] == "feature\timportance\na\t1\n"
    assert read["i.json"] == gram("importance", "m", "--json")
    assert ".npy cannot hold names" in refusal("importance", "m", "-o", "i.npy", status=USAGE)


USES = {
    "laplace": "bandwidth p",
    "lpq-laplace": "bandwidth p exponent",
    "product-laplace": "bandwidth exponent",
    "gaussian": "bandwidth",
    "matern32": "bandwidth p",
    "matern52": "bandwidth p",
    "rational-quadratic": "bandwidth alpha",
    "linear": "",
    "polynomial": "gamma coef0 degree",
    "sigmoid": "gamma coef0",
    "cosine": "",
}
OPTIONS = "p exponent bandwidth alpha gamma coef0 degree".split()


@pytest.mark.parametrize("kernel", USES)
def test_options_that_a_kernel_does_not_have(table, kernel):
    table("0,1\n1,0.5\n0.5,0.25\n")
    default = gram("kernel", "t.csv", "-k", kernel)
    for option in OPTIONS:
        command = ["kernel", "t.csv", "-k", kernel, f"--{option}", "1.5"]
        if option in USES[kernel].split():
            assert gram(*command) != default
        else:
            said = refusal(*command, status=USAGE)
            assert said.startswith(f"gram kernel: --{option} means nothing for the kernel {kernel}")
    if "gamma" not in USES[kernel] and USES[kernel]:
        assert "whose length is --bandwidth" in refusal(
            "kernel", "t.csv", "-k", kernel, "--gamma", 1, status=USAGE
        )


def test_options_that_an_expression_does_not_have(table):
    table("0,1\n1,0.5\n")
    gram("kernel", "t.csv", "-e", "exp(-s)", "-p", 1)
    for more in (["-p", 1, "--of", "product"], ["--bandwidth", 1], ["--alpha", 1]):
        said = refusal("kernel", "t.csv", "-e", "exp(-s)", *more, status=USAGE)
        assert "means nothing for this expression" in said


def test_labels_that_the_model_does_not_know(table):
    table("a,y\n" + "".join(f"{i},{'uvw'[i % 3]}\n" for i in range(30)))
    gram("fit", "t.csv", *FIT)
    table("a,y\n1,x\n2,NA\n3,z\n")
    assert refusal("score", "m", "t.csv", status=BAD_DATA) == (
        'gram score: t.csv: none of the 2 labels in column "y" (the first is "x") is a class of '
        "the model; the classes are u, v, w"
    )
    table("a,y\n1,x\n2,NA\n3,u\n")
    assert gram_json("score", "m", "t.csv")["rows_scored"] == 2
    table("a,y\n" + "".join(f"{i},{i % 2 + 1}\n" for i in range(30)))
    gram("fit", "t.csv", *FIT, "--task", "classification")
    table("a,y\n1,0\n2,3\n")
    assert "the classes are 1, 2" in refusal("score", "m", "t.csv", status=BAD_DATA)
    table("a,y\n1,0\n2,2.0\n")
    assert gram_json("score", "m", "t.csv")["rows_scored"] == 2


def test_manual_names_the_environment_files_and_relatives():
    page = gram("help", "--man").replace("\\-", "-").replace("\\&", "")
    sections = dict(re.findall(r'^\.SH "?([A-Z ]+?)"?\n(.*?)(?=^\.SH|\Z)', page, re.M | re.S))
    known = re.findall(r'"(GRAM_[A-Z_]+)"', (SOURCE / "src" / "core" / "settings.c").read_text())
    assert len(known) >= 10
    for name in [*known, "XDG_CACHE_HOME", "HOME"]:
        assert f"\n.B {name}\n" in sections["ENVIRONMENT"]
    assert "kernels-1.db" in sections["FILES"] and "docs/guide/tables.md" in sections["SEE ALSO"]
    assert gram_run("help", "--man").stdout


def test_metrics_that_a_kernel_does_not_have(table):
    table("0,1\n1,0.5\n0.5,0.25\n")
    for arguments, words in {
        ("-k", "linear"): "means nothing for what is not a function of d",
        ("-e", "s", "--of", "sum"): "means nothing for what is not a function of d",
        ("-L", 1, "-p", 1): "--p and --metric are given",
        (): "without --bandwidth",
    }.items():
        assert words in refusal("kernel", "t.csv", "--metric", "chi2", *arguments, status=USAGE)
    for arguments, words in {
        ("-k", "linear"): "--weights means nothing for what is not a function of d",
        ("-L", 1, "--metric", "haversine"): "--weights means nothing with --metric haversine",
        (): "--weights is given without --bandwidth",
    }.items():
        assert words in refusal("kernel", "t.csv", "--weights", "w.csv", *arguments, status=USAGE)
