#include "tools/reports/runs/experiment_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime-shim/experiment/document.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

// Two sessions of a split and of the same split refitted; a third row has none yet.
Json WrittenDocument() {
  runtime::ExperimentState state;
  for (const bool refitted : {false, true}) {
    runtime::ExperimentRow row{"same", "", 8, 1000, {}, refitted, false};
    for (const char* name : {"a", "b"})
      row.sessions.push_back({name, "c", 10, {{refitted ? 0.25 : 1.0, 0.5, 0.75, 0.5}}, 0});
    state.rows.push_back(row);
  }
  state.rows.push_back({"", "Q4_K_M", std::nullopt, std::nullopt, {}});
  return runtime::ExperimentToJson(Json::object(), {{2}, 0}, state);
}

Error ErrorOf(const Json& document) {
  const auto read = ExperimentFromJson("e.json", document);
  EXPECT_FALSE(read);
  return read ? Error{Code::kIo, "no error"} : read.error();
}

TEST(ExperimentRead, ReadsBackRowsWithSessions) {
  const auto read = ExperimentFromJson("e.json", WrittenDocument());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(read->complete);
  ASSERT_EQ(read->rows.size(), 2u);
  EXPECT_EQ(read->rows[0].row, "split, same");
  EXPECT_EQ(read->rows[0].sessions, 2u);
  EXPECT_EQ(read->rows[0].kld.mean, 1);
  EXPECT_EQ(read->rows[0].node_bytes, 1000u);
  EXPECT_FALSE(read->rows[0].change);
  EXPECT_TRUE(read->rows[1].refitted);
  EXPECT_FALSE(read->rows[1].calibrated);
  EXPECT_EQ(read->rows[1].from, "split, same");
  EXPECT_EQ(read->rows[1].change->mean, -0.75);
  EXPECT_EQ(read->rows[1].top1.mean, 0.75);
}

TEST(ExperimentRead, KnowsCalibratedRows) {
  Json document = WrittenDocument();
  document["rows"][1]["calibrated"] = true;
  EXPECT_TRUE(ExperimentFromJson("e.json", document)->rows[1].calibrated);
  document["rows"][1].erase("calibrated");  // as earlier versions wrote it
  EXPECT_FALSE(ExperimentFromJson("e.json", document)->rows[1].calibrated);
}

TEST(ExperimentRead, NamesTheFieldOfAnInvalidExperiment) {
  Json later = WrittenDocument();
  later["version"] = 2u;
  EXPECT_EQ(ErrorOf(later).code, Code::kUnsupported);
  EXPECT_EQ(ErrorOf(later).message, "e.json: version: expected 1, found 2");
  Json text = WrittenDocument();
  text["rows"][0]["figures"]["capture"]["kld"]["mean"] = "one";
  EXPECT_EQ(ErrorOf(text).code, Code::kCorrupt);
  EXPECT_THAT(ErrorOf(text).message, HasSubstr("e.json: rows[0]: figures: capture: kld: mean"));
  Json huge = WrittenDocument();
  huge["rows"][1]["difference"]["kld"]["error"] = 1e300;
  EXPECT_THAT(ErrorOf(huge).message, HasSubstr("rows[1]: difference: kld: error: expected a sta"));
  Json list = WrittenDocument();
  list["rows"][2] = 7;
  EXPECT_EQ(ErrorOf(list).message, "e.json: rows[2]: expected an object, found 7");
}

}  // namespace
}  // namespace moepack::cli
