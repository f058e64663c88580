// SPDX-License-Identifier: MIT
#include "belfry/data/datasets/csv/csv.h"

#include "belfry/tests/data/files.h"

using namespace belfry;
using namespace belfry::test;

namespace {

std::shared_ptr<const Dataset> from_text(const TempFolder& dir, const std::string& text,
                                         const CsvOptions& options = {}) {
  return csv(dir.write("t.csv", text), options);
}

}  // namespace

TEST_CASE("B37: line ends, byte-order marks, final newlines and quotes give the same table") {
  TempFolder dir;
  const std::string bom = "\xef\xbb\xbf";
  const std::vector<std::string> texts = {
      "x1,x2,y\n1,2,0\n3,4,1\n",
      "x1,x2,y\r\n1,2,0\r\n3,4,1\r\n",
      bom + "x1,x2,y\n1,2,0\n3,4,1\n",
      bom + "x1,x2,y\r\n1,2,0\r\n3,4,1\r\n",
      "x1,x2,y\n1,2,0\n3,4,1",
      "x1,x2,y\n1,2,0\n3,4,1\n\n\n",
      "\"x1\",\"x2\",\"y\"\n1,2,0\n3,4,1\n",
      "x1,x2,y\r1,2,0\r3,4,1\r",
      bom + "\"x1\" , \"x2\",\"y\"\r\n\"1\",2,0\r\n3,4,1\r\n \r\n"};
  for (const std::string& text : texts) {
    CAPTURE(text);
    const auto all = from_text(dir, text);
    CHECK(read_all(*all) == Rows{{1, 2, 3, 4}, {0, 1}});
    const auto named = from_text(dir, text, {.label = "y", .features = {"x1"}});
    CHECK(named->rows() == 2);
    CHECK(named->classes() == 2);
    CHECK(read_all(*named) == Rows{{1, 3}, {0, 1}});
    CHECK_THAT(data_error([&] { from_text(dir, text, {.label = "z"}); }),
               Contains("3 columns: 'x1', 'x2', 'y'"));
  }
  const auto zipped = csv(dir.write("t.csv.gz", gzip(texts[0])));
  CHECK(read_all(*zipped) == Rows{{1, 2, 3, 4}, {0, 1}});
}

TEST_CASE(
    "B37: quoted cells may hold delimiters, quotes and line ends; lines are counted through them") {
  TempFolder dir;
  const std::string text = "\"a, \"\"b\"\"\",\"c\nd\",y\n1,2,0\n3,bad,1\n";
  CHECK_THAT(data_error([&] { from_text(dir, text); }),
             Contains("t.csv:4: ") && Contains("column 'c\nd'") && Contains("'bad'"));
  const auto set =
      from_text(dir, "\"a, \"\"b\"\"\",\"c\nd\",y\n1,2,0\n3,4,1\n", {.features = {"a, \"b\""}});
  CHECK(read_all(*set) == Rows{{1, 3}, {0, 1}});
  CHECK_THAT(data_error([&] { from_text(dir, "1,2,0\n\"3,4,1\n"); }),
             Contains("t.csv:2: ") && Contains("never closed"));
  CHECK_THAT(data_error([&] { from_text(dir, "1,2,0\n3\",4,1\n"); }), Contains("t.csv:2: "));
  CHECK_THAT(data_error([&] { from_text(dir, "1,2,0\n\"3\"x,4,1\n"); }), Contains("t.csv:2: "));
  CHECK_THAT(data_error([&] {
               from_text(dir, std::string("\xff\xfe"
                                          "1\0,\0",
                                          6));
             }),
             Contains("UTF-16"));
}

TEST_CASE(
    "B38: missing values, numeric prefixes and numbers beyond f32 are errors with line and "
    "column") {
  TempFolder dir;
  const std::string head = "a,b,y\n1,2,0\n";
  const auto bad = [&](const std::string& row) {
    return data_error([&] { from_text(dir, head + row + "\n"); });
  };
  CHECK_THAT(bad("3,,1"), Contains("t.csv:3: ") && Contains("'b'") && Contains("found ''"));
  CHECK_THAT(bad("5,nan,0"), Contains("t.csv:3: ") && Contains("'b'") && Contains("'nan'"));
  CHECK_THAT(bad("7,8,"), Contains("t.csv:3: ") && Contains("'y'") && Contains("found ''"));
  CHECK_THAT(bad("NA,8,1"), Contains("'a'") && Contains("'NA'"));
  CHECK_THAT(bad("?,8,1"), Contains("'?'"));
  CHECK_THAT(bad("inf,8,1"), Contains("'inf'"));
  CHECK_THAT(bad("-Infinity,8,1"), Contains("'-Infinity'"));
  CHECK_THAT(bad("2abc,8,1"), Contains("'2abc'") && Contains("not a number"));
  CHECK_THAT(bad("0x10,8,1"), Contains("'0x10'"));
  CHECK_THAT(bad("1 2,8,1"), Contains("'1 2'"));
  CHECK_THAT(bad("1e39,8,1"), Contains("'1e39'") && Contains("f32"));
  CHECK_THAT(bad("1e999,8,1"), Contains("'1e999'") && Contains("f32"));
  CHECK_THAT(bad("1,8,1.5"), Contains("'1.5'") && Contains("t.csv:3: "));
  CHECK_THAT(bad("1,8"), Contains("t.csv:3: ") && Contains("found 2, expected 3"));
  CHECK_THAT(bad("1,8,1,9"), Contains("found 4, expected 3"));
  CHECK_THAT(bad("\n1,8,1"), Contains("t.csv:3: ") && Contains("blank line"));
  CHECK(read_all(*from_text(dir, head + " 2 ,+8,1.0\n")) == Rows{{1, 2, 2, 8}, {0, 1}});
}

TEST_CASE("B38: missing = drop leaves rows out and counts them") {
  TempFolder dir;
  const std::string text = "a,b,y\n1,2,0\n3,,1\n5,nan,0\n7,8,\n9,10,1\n";
  const auto set = from_text(dir, text, {.missing = "drop"});
  CHECK(read_all(*set) == Rows{{1, 2, 9, 10}, {0, 1}});
  CHECK_THAT(set->describe(), Contains("2 rows") && Contains("3 rows with missing values dropped"));
  CHECK_THAT(data_error([&] { from_text(dir, text + "2abc,1,1\n", {.missing = "drop"}); }),
             Contains("t.csv:7: ") && Contains("'2abc'"));
  CHECK_THAT(data_error([&] { from_text(dir, "1,NA,0\n", {.missing = "drop"}); }),
             Contains("0 rows") && Contains("1 row with"));
}

TEST_CASE("csv: header detection never guesses") {
  TempFolder dir;
  CHECK(from_text(dir, "1,2,0\n3,4,1\n")->rows() == 2);
  CHECK(from_text(dir, "1,2,0\n3,4,1\n", {.header = "yes"})->rows() == 1);
  CHECK_THAT(data_error([&] { from_text(dir, "1,,0\n3,4,1\n"); }),
             Contains("t.csv:1: ") && Contains("column 1 (from 0)"));
  CHECK_THAT(data_error([&] { from_text(dir, "x,0,1\n3,4,1\n"); }), Contains("header = \"yes\""));
  CHECK(from_text(dir, "x,0,1\n3,4,1\n", {.header = "yes"})->rows() == 1);
  CHECK_THAT(data_error([&] { from_text(dir, "a,b,y\n1,2,0\n", {.header = "no"}); }),
             Contains("'a'"));
}

TEST_CASE("csv: names are UTF-8 whether the file is or not, for checkpoints keep them") {
  TempFolder dir;
  const std::string utf8 = "\xc3\x96l", latin1 = "\xd6l";
  const CsvOptions options{.label = "y", .features = {utf8}};
  for (const std::string& name : {utf8, latin1, "\xef\xbb\xbf" + latin1}) {
    const auto set = from_text(dir, name + ",y\n7,1\n", options);
    CHECK(read_all(*set) == Rows{{7}, {1}});
    CHECK(set->figures() == Figures{{"column." + utf8, {0}}});
  }
  // No UTF-8 though its bytes look like it: cut, too long, half of a pair, beyond the last one.
  for (const std::string name : {"\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    CHECK(from_text(dir, name + ",y\n7,1\n")->figures().begin()->first.substr(0, 9) ==
          "column.\xc3" + std::string(1, static_cast<char>(name[0] & 0xbf)));
  for (const std::string name : {"\xe2\x82\xac", "\xf0\x9f\x9a\x80", "\xed\x9f\xbf"})
    CHECK(from_text(dir, name + ",y\n7,1\n")->figures().begin()->first == "column." + name);
}

TEST_CASE("csv: a header may begin with '<', a page may not") {
  TempFolder dir;
  CHECK(read_all(*from_text(dir, "<OPEN>,<CLOSE>,<UP>\n1,2,0\n", {.label = "<UP>"})) ==
        Rows{{1, 2}, {0}});
  for (const char* page : {"<!DOCTYPE html>\n", "<html>\n", "<HTML>\n", "<?xml version=\"1.0\"?>"})
    CHECK_THAT(data_error([&] { from_text(dir, page); }), Contains("an HTML or XML page"));
}

TEST_CASE("csv: columns by index, shape, scaling, delimiter, field name and row range") {
  TempFolder dir;
  const std::string text = "0;4;8;12;16\n1;8;8;8;8\n";
  const auto set = from_text(dir, text,
                             {.label = "0",
                              .shape = {2, 2, 1},
                              .field = "digit",
                              .delimiter = ";",
                              .scale = 16,
                              .mean = 0.25,
                              .stddev = 0.5});
  CHECK(set->fields()[0].name == "digit");
  CHECK(set->fields()[0].shape == Shape{2, 2, 1});
  CHECK(read_all(*set) == Rows{{0, 0.5f, 1, 1.5f, 0.5f, 0.5f, 0.5f, 0.5f}, {0, 1}});
  const auto part = from_text(
      dir, text, {.label = "-5", .features = {"-1", "1"}, .delimiter = ";", .rows = {.first = 1}});
  CHECK(read_all(*part) == Rows{{8, 8}, {1}});
  CHECK(part->classes() == 2);
  CHECK(from_text(dir, "1\t0\n2\t1\n", {.delimiter = "tab"})->fields()[0].shape == Shape{1});
  CHECK_THAT(data_error([&] { from_text(dir, text, {.shape = {3}, .delimiter = ";"}); }),
             Contains("[3], 3 values") && Contains("4 features"));
  CHECK_THAT(data_error([&] { from_text(dir, text, {.label = "5", .delimiter = ";"}); }),
             Contains("found 5, expected one in [-5, 4]") && Contains("5 columns"));
  CHECK_THAT(data_error([&] { from_text(dir, text); }), Contains("no feature columns"));
  CHECK_THAT(data_error([&] { from_text(dir, "pixel,lable\n1,0\n", {.label = "label"}); }),
             Contains("did you mean 'lable'"));
  CHECK_THAT(data_error([&] { from_text(dir, "a,a,y\n1,2,0\n", {.features = {"a"}}); }),
             Contains("two columns"));
  CHECK_THAT(data_error([&] { from_text(dir, "a,y\n1,0\n", {.features = {"y"}}); }),
             Contains("among the features"));
  CHECK_THAT(error_of<ConfigError>([&] { from_text(dir, text, {.delimiter = ";;"}); }),
             Contains("delimiter"));
  CHECK_THAT(error_of<ConfigError>([&] { from_text(dir, text, {.scale = 0}); }), Contains("scale"));
  CHECK_THAT(error_of<ConfigError>([&] { from_text(dir, text, {.missing = "zero"}); }),
             Contains("missing"));
  CHECK_THAT(data_error([&] { from_text(dir, "1e38,0\n", {.scale = 1e-5}); }),
             Contains("after scaling"));
}

TEST_CASE("csv: a column is named once in a list, by whatever name") {
  TempFolder dir;
  const auto file = dir.write("t.csv", "a,b,price\n1,2,3\n4,5,6\n");
  const auto bad = [&](const CsvOptions& options) {
    return data_error([&] { csv(file, options); });
  };
  CHECK_THAT(bad({.targets = {"price", "2"}}),
             Contains("t.csv:1: `targets` names a column twice: found column 'price' as item 0 and "
                      "as '2', expected each column once"));
  CHECK_THAT(bad({.targets = {"-1", "b", "2"}}), Contains("column 'price' as item 0 and as '2'"));
  CHECK_THAT(bad({.features = {"a", "b", "-3"}}),
             Contains("`features` names a column twice: found column 'a' as item 0 and as '-3'"));
  CHECK(csv(file, {.targets = {"price", "1"}})->fields()[1].shape == Shape{2});
}

TEST_CASE("csv: labels may be words that `names` lists; what to write there is told") {
  TempFolder dir;
  const std::string text = "a,kind\n1,dog\n2, big cat \n3,dog\n4,\"emu\"\n";
  const auto file = dir.write("t.csv", text);
  CHECK_THAT(data_error([&] { csv(file); }),
             Contains("t.csv:2: a cell in column 'kind' is not a number: found 'dog', expected a "
                      "number; if these are the classes, set names = [\"big cat\", \"dog\", "
                      "\"emu\"]"));
  const std::vector<std::string> names{"dog", "emu", "big cat", "none"};
  const auto set = csv(file, {.names = names});
  CHECK(read_all(*set) == Rows{{1, 2, 3, 4}, {0, 2, 0, 1}});
  CHECK(set->class_names() == names);
  CHECK(set->classes() == 4);
  CHECK(subset(set, 1, 2)->class_names() == names);
  CHECK_THAT(data_error([&] {
               csv(file, {.names = {"dog", "emus", "big cat"}});
             }),
             Contains("t.csv:5: a label in column 'kind' is no class of `names`: found 'emu', "
                      "expected 'dog', 'emus', 'big cat'; did you mean 'emus'?"));
  // A word for what is missing may be a class; an empty cell is none.
  const auto none = dir.write("n.csv", "1,none\n2,\n3,dog\n");
  CHECK(read_all(*csv(none, {.names = names, .missing = "drop"})) == Rows{{1, 3}, {3, 0}});
  CHECK_THAT(data_error([&] { csv(none, {.names = names}); }), Contains("a value is missing"));
  // Numbers as names: classes from 1.
  CHECK(read_all(*csv(dir.write("1.csv", "5,1\n6,2\n"), {.names = {"1", "2"}})).labels ==
        std::vector<std::int32_t>{0, 1});
  const auto bad = [&](const CsvOptions& options) {
    return error_of<ConfigError>([&] { csv(file, options); });
  };
  CHECK_THAT(bad({.names = {"a", "b", "a"}}), Contains("`names`: 'a' occurs twice"));
  CHECK_THAT(bad({.names = {"a"}, .labels = {.classes = 2}}), Contains("leave out `classes`"));
  CHECK_THAT(bad({.names = {"a"}, .targets = {"a"}}), Contains("`targets` are numbers"));
  CHECK_THAT(data_error([&] { csv(dir.write("f.csv", "a,when,b,y\n1,2020-01-02,3,0\n")); }),
             Contains("f.csv:2: a cell in column 'when' is not a number") &&
                 Contains("features = [\"a\", \"b\"]"));
  std::string many = "a,text\n";
  for (int i = 0; i < 60; ++i) many += "1,word" + std::to_string(i) + "\n";
  CHECK_THAT(data_error([&] { csv(dir.write("m.csv", many)); }),
             Contains("labels must be integers from 0, or words that `names` lists"));
}
