#include "libshard/convert/license.h"

#include <gtest/gtest.h>

#include <fstream>

#include "fixtures/temp_dir.h"

namespace moepack {
namespace {

TEST(License, ComesFromTheModelCard) {
  EXPECT_EQ(LicenseOfCard(ParseModelCard("---\nlicense: apache-2.0\n---\n")),
            (ModelLicense{"apache-2.0", "", ""}));
  EXPECT_EQ(LicenseOfCard(ParseModelCard("---\nlicense: other\nlicense_name: glm\n"
                                         "license_link: LICENSE\n---\n")),
            (ModelLicense{"other", "glm", "LICENSE"}));
  EXPECT_EQ(LicenseOfCard(ParseModelCard("---\nlicense: [mit, cc-by-4.0]\n---\n")).id,
            "mit, cc-by-4.0");
  EXPECT_TRUE(LicenseOfCard(ParseModelCard("no front matter")).empty());
}

TEST(License, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(LicenseOfCard(ParseModelCard("---\nlicense: a\xff\n---\n")).id, "a\\xff");
}

class LicenseOfModel : public testing::Test {
 protected:
  Result<ModelLicense> Read() {
    SHARD_TRY(const MoeModel model, MoeModel::Open(dir_ / "model"));
    return LicenseOf(model);
  }
  void WriteCard(const std::string& text) {
    std::ofstream(dir_ / "model" / "README.md", std::ios::binary) << text;
  }
  void SetUp() override {
    std::filesystem::copy(std::filesystem::path(MOEPACK_SOURCE_DIR) / "fixtures" / "tiny-moe",
                          dir_ / "model");
  }
  fixtures::TempDir dir_;
};

TEST_F(LicenseOfModel, IsEmptyWithoutACard) {
  const auto license = Read();
  ASSERT_TRUE(license) << license.error().message;
  EXPECT_TRUE(license->empty());
}

TEST_F(LicenseOfModel, ComesFromTheReadmeOfSafetensors) {
  WriteCard("---\nlicense: mit\n---\n# A model\n");
  const auto license = Read();
  ASSERT_TRUE(license) << license.error().message;
  EXPECT_EQ(license->id, "mit");
}

TEST_F(LicenseOfModel, NamesACardThatCannotBeRead) {
  fixtures::WriteFile(dir_ / "model" / "README.md", "");
  std::filesystem::resize_file(dir_ / "model" / "README.md", uint64_t{17} << 20);
  const auto license = Read();
  ASSERT_FALSE(license);
  EXPECT_NE(license.error().message.find("README.md"), std::string::npos)
      << license.error().message;
}

}  // namespace
}  // namespace moepack
