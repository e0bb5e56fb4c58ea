// The page of `report` in a real browser: headless Chromium, which is not a dependency of moepack
// (.ci/packages.txt, section test). Screenshots are kept in report-screenshots, beside the tests.
#include <gmock/gmock.h>

#include <sstream>

#include "tests/tools/page/page_sample.h"
#include "tests/tools/run_moepack.h"
#include "tools/page/html.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;

std::string FindBrowser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (std::system(Cat("command -v ", name, " >/dev/null 2>&1").c_str()) == 0) return name;
  }
  return "";
}

constexpr const char* kFewSessions =
    R"({"session": "a", "bucket": "c", "text": "static int compare(const void *a, const void *b);"}
{"session": "b", "bucket": "prose", "text": "The router of a layer picks two of sixteen experts."}
)";

class ReportInABrowser : public ::testing::Test {
 protected:
  void SetUp() override {
    browser_ = FindBrowser();
    if (browser_.empty()) GTEST_SKIP() << "chromium is not installed";
    WriteAll(workspace_ / "few.jsonl", kFewSessions);
    for (const char* line :
         {"plan fixtures/tiny-moe --groups 2 --statistics fixtures/statistics/profile.json -o "
          "plan.json",
          "build fixtures/tiny-moe --plan plan.json --quantize Q8_0 -o out",
          "eval out --against fixtures/tiny-moe --text fixtures/texts/held-out.jsonl --generate 0 "
          "--record --json >evaluation.json",
          "refit fixtures/tiny-moe --plan plan.json --text fixtures/texts/manual.md --context 64 "
          "--least-tokens 20 --steps ridge --store refit",
          "experiment fixtures/tiny-moe --text few.jsonl --eligible 8 --strategies "
          "contiguous,modulo -o experiment.json",
          "report out plan.json fixtures/statistics/profile.json evaluation.json refit/refit.json "
          "experiment.json -o page.html"}) {
      const ToolRun run = workspace_.Moepack(line);
      ASSERT_EQ(run.status, 0) << line << "\n" << run.err;
    }
    evaluation_ = Document("evaluation.json");
  }
  // What the browser prints. What pages tell its console stands in its log, on stderr.
  std::string Browse(const std::string& options, const std::string& page = "page.html") {
    const std::string out = (workspace_ / "browser.out").string();
    const std::string command =
        Cat(browser_,
            " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage "
            "--hide-scrollbars --enable-logging=stderr --v=0 --user-data-dir='",
            (workspace_ / "profile").string(), "' ", options, " 'file://",
            (workspace_ / page).string(), "' >'", out, "' 2>'", out, ".log'");
    EXPECT_EQ(std::system(command.c_str()), 0) << command << "\n" << ReadFile(out + ".log");
    std::istringstream log(ReadFile(out + ".log"));
    for (std::string line; std::getline(log, line);) {
      if (line.find("CONSOLE") != std::string::npos) console_ += line + "\n";
    }
    return ReadFile(out);
  }
  nlohmann::json Document(const std::string& name) const {
    return nlohmann::json::parse(ReadFile(workspace_ / name));
  }
  Workspace workspace_;
  std::string browser_, console_;
  nlohmann::json evaluation_;
};

TEST_F(ReportInABrowser, TablesShowTheFiguresOfTheJson) {
  const std::string dom = Browse("--dump-dom");
  EXPECT_EQ(console_, "");
  const auto sessions = TableOf(dom, "table-sessions-1");
  ASSERT_EQ(sessions.size(), evaluation_["sessions"].size() + 1);
  for (size_t i = 1; i < sessions.size(); ++i) {
    const nlohmann::json& session = evaluation_["sessions"][i - 1];
    EXPECT_EQ(session["session"], sessions[i][0]);
    EXPECT_EQ(session["bucket"], sessions[i][1]);
    EXPECT_EQ(sessions[i][4], Percent(session["captures"][0]));
    EXPECT_EQ(sessions[i][5], Percent(session["captures"][1]));
  }
  const auto damage = TableOf(dom, "table-damage-1");
  ASSERT_EQ(damage.size(), 6u);
  const nlohmann::json& best = evaluation_["quality"]["best"]["all"];
  const nlohmann::json& kld = best["split"]["kld"];
  EXPECT_EQ(damage[2][1], FormatCount(best["tokens"].get<uint64_t>()));
  EXPECT_EQ(damage[2][4], FixedWithError(kld["mean"], kld["error"], 4));
  uint64_t counted = 0;
  const auto race = TableOf(dom, "table-race-1");
  for (size_t r = 1; r < race.size(); ++r)
    for (size_t c = 1; c < race[r].size(); ++c) counted += std::stoul(race[r][c]);
  EXPECT_EQ(counted, evaluation_["sessions"].size());
  const nlohmann::json manifest = Document("out/distribution.json");
  uint64_t trunk = 0;
  for (const nlohmann::json& bundle : manifest["bundles"]) {
    if (bundle["role"] == "trunk") trunk += bundle["size"].get<uint64_t>();
  }
  EXPECT_EQ(TableOf(dom, "table-bytes")[1][2], FormatCount(trunk));
}

TEST_F(ReportInABrowser, TablesOfRefitAndExperimentAreTheFiguresOfTheirJson) {
  const std::string dom = Browse("--dump-dom");
  EXPECT_EQ(console_, "");
  const nlohmann::json layers = Document("refit/refit.json")["layers"];
  const auto refit = TableOf(dom, "table-refit-1");
  ASSERT_EQ(refit.size(), layers.size() + 1);
  for (size_t i = 1; i < refit.size(); ++i) {
    const nlohmann::json& outcome = layers[i - 1];
    EXPECT_EQ(refit[i][0], outcome["layer"].dump());
    EXPECT_EQ(refit[i][1], outcome["group"].dump());
    EXPECT_EQ(refit[i][2], Fixed(outcome["error_before"], 4));
    EXPECT_EQ(refit[i][3], Fixed(outcome["error_after"], 4));
    EXPECT_EQ(refit[i][4], outcome["accepted"].get<bool>() ? "yes" : "no");
  }
  const nlohmann::json rows = Document("experiment.json")["rows"];
  const auto experiment = TableOf(dom, "table-experiment-1");
  ASSERT_EQ(experiment.size(), rows.size() + 1);
  for (size_t i = 1; i < experiment.size(); ++i) {
    const nlohmann::json &row = rows[i - 1], &figures = row["figures"]["capture"];
    EXPECT_EQ(row["row"], experiment[i][0]);
    EXPECT_EQ(experiment[i][1], FormatBytes(row["node_bytes"].get<uint64_t>()));
    EXPECT_EQ(experiment[i][2], FixedWithError(figures["kld"]["mean"], figures["kld"]["error"], 4));
    EXPECT_EQ(experiment[i][4], Percent(figures["top1"]["mean"]));
  }
}

// The heat map of all sessions: experts' shares of the gates of a layer.
TEST_F(ReportInABrowser, HeatMapHasTheSharesOfTheStatistics) {
  const auto table = TableOf(Browse("--dump-dom"), "table-mass");
  const nlohmann::json statistics = Document("fixtures/statistics/profile.json");
  ASSERT_EQ(table.size(), 3u * 16 + 1);
  for (size_t i = 1; i < table.size(); ++i) {
    const size_t layer = std::stoul(table[i][0]), expert = std::stoul(table[i][1]);
    double own = 0, all = 0;
    for (const nlohmann::json& session : statistics["sessions"]) {
      for (const char* phase : {"prefill", "decode"}) {
        for (const nlohmann::json& tally : session[phase]["layers"]) {
          if (tally["layer"] != layer) continue;
          for (size_t e = 0; e < 16; ++e) {
            all += tally["gate_mass"][e].get<double>();
            own += e == expert ? tally["gate_mass"][e].get<double>() : 0;
          }
        }
      }
    }
    EXPECT_NEAR(std::stod(table[i][3]), 100 * own / all, 0.006) << layer << " " << expert;
  }
}

size_t PagesOf(const std::string& pdf) { return CountOf(pdf, "/Type /Page\n"); }

// Tables that are closed on the screen are open on paper.
TEST_F(ReportInABrowser, PrintsItsTables) {
  std::string opened = ReadFile(workspace_ / "page.html");
  const std::string closed = "<details>";
  for (size_t at = 0; (at = opened.find(closed, at)) != std::string::npos; ++at)
    opened.replace(at, closed.size(), "<details open>");
  WriteAll(workspace_ / "opened.html", opened);
  std::vector<std::string> printed;
  for (const char* page : {"page", "opened"}) {
    const std::string pdf = (workspace_ / Cat(page, ".pdf")).string();
    Browse(Cat("--no-pdf-header-footer --print-to-pdf='", pdf, "'"), Cat(page, ".html"));
    printed.push_back(ReadFile(pdf));
    ASSERT_EQ(printed.back().substr(0, 5), "%PDF-") << page;
  }
  EXPECT_EQ(console_, "");
  EXPECT_GT(PagesOf(printed[0]), 2u);
  EXPECT_EQ(PagesOf(printed[0]), PagesOf(printed[1]));
}

// Width and height of a PNG, which stand at fixed places behind its signature.
std::pair<uint32_t, uint32_t> SizeOfPng(const std::string& png) {
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<unsigned char>(png[i]);
    return value;
  };
  if (png.size() < 24 || png.compare(1, 3, "PNG") != 0) return {0, 0};
  return {number(16), number(20)};
}

TEST_F(ReportInABrowser, RendersInLightDarkAndNarrowLayouts) {
  const fs::path folder = fs::current_path() / "report-screenshots";
  fs::create_directories(folder);
  struct Shot {
    const char *name, *options;
    uint32_t width, height;
  };
  std::vector<std::string> bytes;
  for (const Shot& shot : {Shot{"light", "--blink-settings=preferredColorScheme=1", 1100, 4400},
                           Shot{"dark", "--blink-settings=preferredColorScheme=0", 1100, 4400},
                           Shot{"narrow", "--blink-settings=preferredColorScheme=1", 520, 5200}}) {
    const fs::path png = folder / Cat(shot.name, ".png");
    fs::remove(png);
    Browse(Cat(shot.options, " --window-size=", shot.width, ",", shot.height, " --screenshot='",
               png.string(), "'"));
    bytes.push_back(ReadFile(png));
    EXPECT_EQ(SizeOfPng(bytes.back()), std::pair(shot.width, shot.height)) << shot.name;
  }
  EXPECT_EQ(console_, "");
  EXPECT_NE(bytes[0], bytes[1]) << "light and dark look the same";
}

}  // namespace
}  // namespace moepack::cli
