#include "runtime-shim/experiment/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"

namespace moepack::runtime {
namespace {

using ::testing::HasSubstr;

ExperimentState TwoRows() {
  ExperimentState state;
  state.rows = {{"contiguous", "", 8, 1000, {}}, {"", "Q8_0", std::nullopt, std::nullopt, {}}};
  for (const char* name : {"a", "b"}) {
    SessionFigures session;
    session.name = name;
    session.tokens = 3;
    session.nodes = {{0.5, 0.25, 0.5, 1}};
    state.rows[1].sessions.push_back(session);
    session.nodes.push_back({0.125, 0.1, 1, 0.5});
    session.raced = 1;
    state.rows[0].sessions.push_back(session);
  }
  return state;
}

const std::vector<TokenSession> kSessions = {{"a", "", {1, 2, 3, 4}}, {"b", "", {1, 2, 3, 4}}};
const std::vector<size_t> kNodes = {2, 1};
const ExperimentRule kRule = {{2}, 0};

class ExperimentDocument : public ::testing::Test {
 protected:
  std::string Write(const Json& document) {
    const std::string path = (dir_.path() / "e.json").string();
    EXPECT_TRUE(WriteTextFile(path, WriteJson(document)));
    return path;
  }
  // The message with which the changed document is refused, without the path.
  std::string Refusal(const std::function<void(Json&)>& change) {
    Json document = ExperimentToJson({{"model", "m"}}, kRule, TwoRows());
    change(document);
    const std::string path = Write(document);
    auto finished = ReadExperiment(path);
    ExperimentState state;
    state.rows.resize(2);
    const Status status = finished ? Resume(path, *std::move(finished), kSessions, kNodes, state)
                                   : Status(finished.error());
    if (status) return "";
    return status.error().message.substr(path.size() + 2);
  }
  fixtures::TempDir dir_;
};

TEST_F(ExperimentDocument, ReadsBackWhatARunNeeds) {
  const std::string path = Write(ExperimentToJson({{"model", "m"}}, kRule, TwoRows()));
  auto finished = ReadExperiment(path);
  ASSERT_TRUE(finished) << finished.error().message;
  EXPECT_EQ(finished->setup, Json({{"model", "m"}}));
  ExperimentState state = TwoRows();
  const Json before = ExperimentToJson({{"model", "m"}}, kRule, state);
  for (ExperimentRow& row : state.rows) row.sessions.clear();
  ASSERT_TRUE(Resume(path, *std::move(finished), kSessions, kNodes, state));
  EXPECT_EQ(ExperimentToJson({{"model", "m"}}, kRule, state), before);
}

TEST_F(ExperimentDocument, HasEveryFigureForEveryChoice) {
  const Json document = ExperimentToJson(Json::object(), kRule, TwoRows());
  EXPECT_EQ(document["format"], "moepack-experiment");
  EXPECT_EQ(document["version"], 1);
  const Json& row = document["rows"][0];
  EXPECT_EQ(row["row"], "split, contiguous");
  for (const char* choice : {"capture", "race", "best", "any"}) {
    for (const char* figure : {"kld", "loss", "top1", "capture"}) {
      const Json& estimate = row["figures"][choice][figure];
      EXPECT_TRUE(estimate["mean"].is_number()) << choice << figure;
      EXPECT_NEAR(estimate["error"], 0, 1e-15) << choice << figure;
      EXPECT_EQ(estimate["interval"].size(), 2u) << choice << figure;
    }
  }
  EXPECT_EQ(row["figures"]["race"]["kld"]["mean"], 0.125);
  EXPECT_EQ(row["figures"]["capture"]["kld"]["mean"], 0.5);
  EXPECT_TRUE(document["rows"][1]["strategy"].is_null());
  EXPECT_TRUE(document["rows"][1]["node_bytes"].is_null());
}

TEST_F(ExperimentDocument, OfAnotherKindIsRefused) {
  EXPECT_EQ(Refusal([](Json& document) { document["format"] = "moepack-plan"; }),
            "format: expected \"moepack-experiment\", found another file");
  EXPECT_EQ(Refusal([](Json& document) { document["version"] = 2; }),
            "version: expected 1, found 2");
  EXPECT_EQ(Refusal([](Json& document) { document["rows"].erase(1); }),
            "rows: expected 2, found 1");
}

TEST_F(ExperimentDocument, WithOtherSessionsIsRefused) {
  EXPECT_EQ(Refusal([](Json& document) { document["rows"][0]["sessions"][1]["session"] = "c"; }),
            "rows[0]: sessions[1]: session: expected \"b\", found \"c\"");
  EXPECT_EQ(Refusal([](Json& document) {
              document["rows"][1]["sessions"].push_back(document["rows"][1]["sessions"][0]);
            }),
            "rows[1]: sessions: expected at most 2, found 3");
  EXPECT_EQ(Refusal([](Json& document) {
              document["rows"][0]["sessions"][0]["nodes"].erase(1);
              document["rows"][0]["sessions"][0]["race"] = 0;
            }),
            "rows[0]: sessions[0]: nodes: expected 2, found 1");
}

TEST_F(ExperimentDocument, WithBrokenValuesIsRefused) {
  EXPECT_EQ(Refusal([](Json& document) { document["rows"][0]["sessions"][0]["race"] = 2; }),
            "rows[0]: sessions[0]: race: expected the number of a node, found 2");
  EXPECT_EQ(Refusal([](Json& document) { document["rows"][0]["sessions"][0]["nodes"][0] = 5; }),
            "rows[0]: sessions[0]: nodes[0]: expected an object, found 5");
  EXPECT_THAT(
      Refusal([](Json& document) { document["rows"][0]["sessions"][0]["nodes"][0].erase("kld"); }),
      HasSubstr("rows[0]: sessions[0]: nodes[0]: kld: expected a number"));
  EXPECT_EQ(Refusal([](Json& document) { document["rows"][0] = 1; }),
            "rows[0]: expected an object, found 1");
  EXPECT_EQ(Refusal([](Json& document) { document["rows"][0]["sessions"][0] = 1; }),
            "rows[0]: sessions[0]: expected an object, found 1");
}

}  // namespace
}  // namespace moepack::runtime
