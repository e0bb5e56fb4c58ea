// Every file and directory under fixtures/bad is refused with the code its folder is named after,
// and with a message that names the file and the place.
#include "fixtures/bad_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/model/model.h"
#include "libshard/stats/statistics_file.h"

namespace {

namespace fs = std::filesystem;

fs::path BadDir() { return fs::path(MOEPACK_SOURCE_DIR) / "fixtures" / "bad"; }

// Folder name -> code. Every case in a folder that is not listed here fails.
const std::map<std::string, moepack::Code>& Codes() {
  static const std::map<std::string, moepack::Code> codes = {
      {"corrupt", moepack::Code::kCorrupt},
      {"unsupported", moepack::Code::kUnsupported},
      {"not_found", moepack::Code::kNotFound},
      {"invalid_argument", moepack::Code::kInvalidArgument}};
  return codes;
}

// "code/name" of everything on disk, so that files missing from the list are tested too.
std::vector<std::string> CommittedPaths() {
  std::vector<std::string> paths;
  for (const auto& [folder, code] : Codes()) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(BadDir() / folder, error)) {
      paths.push_back(folder + "/" + entry.path().filename().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string MentionOf(const std::string& path) {
  for (const fixtures::BadCase& one : fixtures::BadCases()) {
    if (one.path() == path) return one.mentions;
  }
  return "(no case in fixtures/bad_*.cc)";
}

// The result of the command that reads such a file; Ok if it is read without complaint.
moepack::Status Open(const fs::path& path) {
  if (path.filename().string().starts_with("statistics_")) {
    const auto statistics = moepack::ReadStatistics(path.string());
    return statistics ? moepack::Ok() : moepack::Status(statistics.error());
  }
  const auto model = moepack::MoeModel::Open(path);
  return model ? moepack::Ok() : moepack::Status(model.error());
}

class BadFile : public testing::TestWithParam<std::string> {};

TEST_P(BadFile, IsRefusedWithTheCodeOfItsFolderAndAMessageThatNamesThePlace) {
  const std::string folder = GetParam().substr(0, GetParam().find('/'));
  const moepack::Status opened = Open(BadDir() / GetParam());
  ASSERT_FALSE(opened) << "opened without complaint";
  const moepack::Error& error = opened.error();
  EXPECT_EQ(static_cast<int>(error.code), static_cast<int>(Codes().at(folder))) << error.message;
  const std::string name = fs::path(GetParam()).filename().string();
  EXPECT_NE(error.message.find(name), std::string::npos) << error.message;
  EXPECT_NE(error.message.find(MentionOf(GetParam())), std::string::npos)
      << "expected " << MentionOf(GetParam()) << " in: " << error.message;
  EXPECT_LT(error.message.size(), 2000u);
}

INSTANTIATE_TEST_SUITE_P(Committed, BadFile, testing::ValuesIn(CommittedPaths()),
                         [](const testing::TestParamInfo<std::string>& one) {
                           std::string name = one.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](unsigned char letter) { return std::isalnum(letter) == 0; }, '_');
                           return name;
                         });

TEST(BadFiles, NumberAtLeast140AndCoverEveryCode) {
  const std::vector<std::string> paths = CommittedPaths();
  EXPECT_GE(paths.size(), 140u);
  for (const auto& [folder, code] : Codes()) {
    const bool any = std::any_of(paths.begin(), paths.end(), [&folder = folder](const auto& path) {
      return path.rfind(folder + "/", 0) == 0;
    });
    EXPECT_TRUE(any) << folder;
  }
}

TEST(BadFiles, AMillionOpenBracketsAreRefusedWithoutDeepRecursion) {
  const fixtures::TempDir dir;
  const fs::path path = dir / "bomb.safetensors";
  const std::string bomb = "{\"a\":" + std::string(1'000'000, '[');
  ASSERT_TRUE(fixtures::WriteFile(path, fixtures::WithHeader(bomb)));
  const auto model = moepack::MoeModel::Open(path);
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(static_cast<int>(model.error().code), static_cast<int>(moepack::Code::kCorrupt));
}

}  // namespace
