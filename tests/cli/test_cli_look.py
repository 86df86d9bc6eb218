"""test_cli_look.py - the first look at a table: what is remarked, where, and when nothing is"""

import datetime
import json
import uuid

import numpy as np
import pytest
from gram_cli import BAD_DATA, gram, gram_json, gram_run, write_rows
from machine_tables import FAST

FIT = ["-o", "m", *FAST]


def look(path, target, *more):
    """The remarks of a fit, which are the same on standard error and in the report."""
    done = gram_run("fit", path.name, "-y", target, *FIT, *more, "--json", cwd=path.parent)
    remarks = json.loads(done.stdout)["remarks"]
    for remark in remarks:
        line = f":{remark['line']}" if remark["line"] else ""
        said = f'{path.name}{line}: column "{remark["column"]}": {remark["text"]}'
        shown = [r for r in remarks if r["code"] == remark["code"]].index(remark) < 5
        assert (said in done.notes) == shown
    return {(r["column"], r["code"]): r for r in remarks}


def table(path, rows=300, delimiter=",", seed=0, **columns):
    """A table of two columns of noise, the columns given (functions of the row), and y."""
    generator = np.random.default_rng(seed)
    noise = generator.normal(size=(rows, 3)).round(4)
    made = [["u", "v", *columns, *([] if "y" in columns else ["y"])]]
    for i in range(rows):
        row = [*noise[i, :2], *(make(i) for make in columns.values())]
        made.append(row if "y" in columns else [*row, noise[i, 2]])
    return write_rows(path, made, delimiter)


def test_a_table_of_which_there_is_nothing_to_say(tmp_path):
    path = table(tmp_path / "t.csv", colour=lambda i: "red green blue".split()[i * i % 7 % 3])
    assert look(path, "y", "--strict") == {}
    assert look(path, "y", "--holdout", "0.2") == {}


def test_whole_numbers_as_a_target(tmp_path):
    path = table(tmp_path / "t.csv", y=lambda i: 1 + i % 7)
    found = look(path, "y")
    assert list(found) == [("y", "whole-target")]
    text = found["y", "whole-target"]["text"]
    assert text.startswith("7 different whole numbers, 1 to 7: they were taken as numbers")
    assert "--task classification" in text
    assert look(path, "y", "--task", "classification") == {}
    assert look(path, "y", "--task", "regression") == {}
    assert gram_json("fit", path, "-y", "y", *FIT, cwd=tmp_path)["task"] == "regression"
    many = table(tmp_path / "many.csv", y=lambda i: i % 21)
    assert look(many, "y") == {}
    binary = table(tmp_path / "two.csv", y=lambda i: i % 2)
    assert look(binary, "y") == {}
    odd = table(tmp_path / "odd.csv", y=lambda i: 3 + 5 * (i % 2))
    text = look(odd, "y")["y", "two-values"]["text"]
    assert text.startswith("2 different numbers, 3 and 8: they were taken as two classes")


def test_decimal_commas(tmp_path):
    def price(i):
        return f"{1 + i * 7919 % 997 / 13:.2f}".replace(".", ",")

    path = table(tmp_path / "t.csv", 320, ";", preis=price)
    found = look(path, "preis")
    text = found["preis", "decimal-comma"]["text"]
    assert text.startswith("320 of 320 values look like numbers with a decimal comma")
    assert "--decimal comma" in text and "they were taken as classes" in text
    feature = look(path, "y")["preis", "decimal-comma"]
    assert feature["line"] == 2 and "they were taken as categories" in feature["text"]
    path.write_text(path.read_text().replace(".", ","))
    assert look(path, "preis", "--decimal", "comma") == {}
    path = table(tmp_path / "p.csv", 100, ";", x=lambda i: f"{i * 7919 % 997 / 16}")
    codes = {code for _, code in look(path, "y", "--decimal", "comma")}
    assert codes == {"decimal-point"}


@pytest.mark.parametrize(
    ("form", "code"),
    [
        (lambda x: f"{1000 * x + 1000:,.2f}", "thousands"),
        (lambda x: f"{10**6 * x + 10**6:,.0f}", "thousands"),
        (lambda x: f"{10**6 * x + 10**6:_.0f}".replace("_", " "), "thousands"),
        (lambda x: f"${1000 * x:,.2f}", "unit"),
        (lambda x: f"{x:.2f} €", "unit"),
        (lambda x: f"{x:.1f} %", "unit"),
    ],
)
def test_numbers_that_are_written_for_people(tmp_path, form, code):
    path = table(tmp_path / "t.csv", x=lambda i: form(i * 7919 % 997 / 10))
    found = look(path, "y")
    assert list(found) == [("x", code)] and found["x", code]["line"] == 2
    assert found["x", code]["text"].startswith("300 of 300 values are numbers with")


def test_one_bad_cell_and_its_line(tmp_path):
    path = table(tmp_path / "t.csv", 400, z=lambda i: "oops" if i == 13 else i * 7919 % 997 / 10)
    found = look(path, "y", "--holdout", "0.3", "--seed", 5)
    assert list(found) == [("z", "bad-cell")] and found["z", "bad-cell"]["line"] == 15
    text = found["z", "bad-cell"]["text"]
    assert text.startswith('399 numbers and 1 text ("oops", line 15): they were taken as cate')
    # Lines as an editor counts them: blank ones, and those in quotes of earlier rows.
    lines = path.read_text().splitlines()
    lines[4] = '"1' + "\n\n" + '",' + lines[4].split(",", 1)[1]
    path.write_text("\n" + "\n".join(lines) + "\n")
    found = look(path, "y")
    assert found["z", "bad-cell"]["line"] == 18
    assert found["u", "bad-cell"]["line"] == 6
    # In a column of few numbers a text is a category.
    path = table(tmp_path / "few.csv", size=lambda i: ["1", "2", "3", "more"][i % 4])
    assert look(path, "y") == {}
    # What the user chose is not guessed at.
    path = table(tmp_path / "t.csv", z=lambda i: "oops" if i == 13 else i % 50)
    assert look(path, "y", "--categorical", "z") == {} and look(path, "y", "--ignore", "z") == {}


def test_dates(tmp_path):
    first = datetime.date(2020, 1, 1)

    def written(form, odd=""):
        def cell(i):
            return odd if odd and i == 20 else (first + datetime.timedelta(i % 250)).strftime(form)

        return table(tmp_path / "t.csv", d=cell)

    for form in ["%Y-%m-%d", "%Y/%m/%dT10:00:00Z", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%y"]:
        assert look(written(form), "y") == {}
    bad = look(written("%Y-%m-%d", "soon"), "y")["d", "date"]
    assert bad["line"] == 22 and bad["text"].startswith("299 of 300 values are dates with the same")
    assert '(the first other is "soon"): they were taken as categories' in bad["text"]
    path = table(tmp_path / "t.csv", d=lambda i: f"{1 + i % 12}/{1 + i % 11}/2024")
    both = look(path, "y")["d", "date"]["text"]
    assert "are dates whose day and month cannot be told apart" in both
    assert "they were taken as classes" in look(written("%Y-%m-%d"), "d")["d", "date"]["text"]


def test_a_trend_over_dates_is_learned(tmp_path):
    """The column was 255 categories, and R2 was -1.12."""
    generator = np.random.default_rng(6)
    first = datetime.datetime(2019, 1, 1)
    rows = [["date", "x", "y"]]
    for i in range(800):
        day = first + datetime.timedelta(days=i, hours=int(generator.integers(24)))
        season = np.sin(2 * np.pi * i / 365.2425) + (day.weekday() >= 5)
        rows.append([day.isoformat(), generator.normal(), i / 200 + season])
    path = write_rows(tmp_path / "t.csv", rows)
    report = gram_json("fit", path, "-y", "y", "-o", tmp_path / "m", "--holdout", 0.25, *FAST)
    assert report["r2"] > 0.9
    assert report["machine"]["features"] == 8  # days, year, week and day, and x
    expected = gram("predict", tmp_path / "m", path)
    mixed = write_rows(tmp_path / "u.csv", [row[::-1] for row in rows])
    assert gram("predict", tmp_path / "m", mixed) == expected
    rows[1], rows[2] = ["soon", 0, 0], ["", 0, 0]
    values = gram("predict", tmp_path / "m", write_rows(tmp_path / "v.csv", rows)).split()[1:]
    assert len(values) == 800 and values[0] == values[1] and np.isfinite(float(values[0]))
    assert gram_json("score", tmp_path / "m", path)["r2"] > 0.9


def test_values_that_are_all_different(tmp_path):
    identifier = np.random.default_rng(3).permutation(300)
    path = table(
        tmp_path / "t.csv",
        uuid=lambda i: uuid.uuid5(uuid.NAMESPACE_URL, str(i)),
        id=lambda i: identifier[i],
        count=lambda i: 5 * i,
        measured=lambda i: 1000 * identifier[i] + identifier[-1 - i],
        town=lambda i: f"town {i // 2}",
    )
    found = look(path, "y")
    assert set(found) == {("uuid", "different"), ("id", "different"), ("count", "different")}
    assert found["uuid", "different"]["text"].startswith("300 texts, each different")
    assert found["id", "different"]["text"].startswith("300 whole numbers, each different")
    named = look(path, "uuid")
    assert "each is a class of its own" in named["uuid", "different"]["text"]


def test_columns_that_give_the_target_away(tmp_path):
    y = np.random.default_rng(4).normal(size=300).round(4)
    path = table(
        tmp_path / "t.csv",
        copy=lambda i: y[i],
        curve=lambda i: np.exp(-y[i]).round(6),
        noisy=lambda i: (y[i] + np.sin(37 * i)).round(4),
        group=lambda i: f"g{np.floor(20 * y[i]):.0f}",
        y=lambda i: y[i],
    )
    found = look(path, "y")
    assert set(found) >= {("copy", "leak"), ("curve", "leak")} and ("noisy", "leak") not in found
    assert found["copy", "leak"]["text"].startswith("it explains 100.0 % of the target alone")
    rare = table(
        tmp_path / "rare.csv",
        1000,
        paid=lambda i: 17 if i % 50 == 0 else i % 13,
        shop=lambda i: "abc"[i % 3],
        y=lambda i: "fraud" if i % 50 == 0 else "fine",
    )
    assert set(look(rare, "y")) == {("paid", "leak")}
    one = write_rows(tmp_path / "one.csv", [["x", "y"], *([i / 7, i * i / 3] for i in range(99))])
    assert look(one, "y") == {}


def test_columns_that_say_nothing_new(tmp_path):
    path = table(
        tmp_path / "t.csv",
        c=lambda i: 7,
        t=lambda i: "same",
        e=lambda i: "",
        some=lambda i: 1 if i % 3 else "",
        kind=lambda i: "abc"[i * i % 11 % 3],
        again=lambda i: "abc"[i * i % 11 % 3],
    )
    found = look(path, "y")
    assert set(found) == {
        ("c", "constant"),
        ("t", "constant"),
        ("e", "empty"),
        ("again", "duplicate"),
    }
    assert found["again", "duplicate"]["text"] == 'the same as column "kind" in every row'


def test_more_digits_than_a_number_keeps(tmp_path):
    path = table(
        tmp_path / "t.csv",
        big=lambda i: 10**18 + 7 * (i * 7919 % 997),
        real=lambda i: f"{i}.12345678901234567",
        power=lambda i: f"{i}e17",
    )
    found = look(path, "y")
    assert list(found) == [("big", "precision")] and found["big", "precision"]["line"] == 2


def test_strict_trains_nothing(tmp_path):
    path = table(tmp_path / "t.csv", c=lambda i: 7)
    done = gram_run("fit", path, "-y", "y", "-o", tmp_path / "m", "--strict", status=BAD_DATA)
    assert len(done.notes) == 1 and not (tmp_path / "m").exists()
    assert done.stderr == (
        f"gram fit: {path}: 1 remark on the table, which --strict refuses\n"
    )


def test_labels_that_the_model_does_not_know(tmp_path):
    kinds = table(tmp_path / "t.csv", y=lambda i: "red green blue".split()[i * i % 7 % 3])
    gram("fit", kinds, "-y", "y", "-o", tmp_path / "m", *FAST)
    assert gram_json("score", tmp_path / "m", kinds)["remarks"] == []
    rows = kinds.read_text().splitlines()
    rows[5] = rows[5].rsplit(",", 1)[0] + ",pink"
    rows[9] = rows[9].rsplit(",", 1)[0] + ",grey"
    (tmp_path / "u.csv").write_text("\n".join(rows) + "\n")
    done = gram_run("score", tmp_path / "m", "u.csv", "--json", cwd=tmp_path)
    (remark,) = json.loads(done.stdout)["remarks"]
    assert (remark["code"], remark["column"], remark["line"]) == ("unknown-label", "y", 6)
    assert remark["text"].startswith(
        '2 of 300 labels are no class of the model (the first is "pink")'
    )
    assert done.notes == [f'u.csv:6: column "y": {remark["text"]}']
    done = gram_run("score", tmp_path / "m", "u.csv", "--strict", cwd=tmp_path, status=BAD_DATA)
    assert done.stdout == "" and len(done.notes) == 1
    assert done.stderr == "gram score: u.csv: 1 remark on the table, which --strict refuses\n"
    # Classes that are numbers are the same number however they are written.
    numbers = table(tmp_path / "n.csv", y=lambda i: i * i % 3)
    gram("fit", numbers, "-y", "y", "-o", tmp_path / "n", *FAST, "--task", "classification")
    rows = numbers.read_text().splitlines()
    rows[1] = rows[1].rsplit(",", 1)[0] + ",1.0"
    rows[2] = rows[2].rsplit(",", 1)[0] + ",5"
    (tmp_path / "v.csv").write_text("\n".join(rows) + "\n")
    (remark,) = gram_json("score", tmp_path / "n", tmp_path / "v.csv")["remarks"]
    assert remark["line"] == 3 and remark["text"].startswith("1 of 300 labels is no class")


def test_many_remarks_of_one_kind_are_counted(tmp_path):
    path = table(tmp_path / "t.csv", **{f"c{i}": lambda i: 7 for i in range(30)})
    done = gram_run("fit", path, "-y", "y", "-o", tmp_path / "m", *FAST)
    assert len(done.notes) == 6 and done.notes[5] == f"{path}: 25 more remarks of these kinds"
    assert len(look(path, "y")) == 30


def test_arrays_have_no_lines(tmp_path):
    x = np.random.default_rng(5).normal(size=(50, 4))
    x[:, 2] = 1
    np.save(tmp_path / "x.npy", x)
    found = look(tmp_path / "x.npy", "3")
    assert list(found) == [("2", "constant")] and found["2", "constant"]["line"] is None


def test_names_of_columns_are_fit_for_a_terminal(tmp_path):
    rows = [[1, i / 7, i * i % 17 / 3] for i in range(30)]
    path = write_rows(tmp_path / "t.csv", [["\x1b[31mx", "z", "y"], *rows])
    done = gram_run("fit", path, "-y", "y", "-o", tmp_path / "m", *FAST)
    assert done.notes == [f'{path}: column "?[31mx": all 30 values are the same']
    assert gram("importance", tmp_path / "m")
