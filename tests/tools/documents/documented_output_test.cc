#include <algorithm>
#include <filesystem>

#include "tests/tools/documents/documented_page.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> PagesWithBlocks() {
  std::vector<std::string> pages = {"README.md"};
  for (const auto& entry : fs::directory_iterator(MOEPACK_SOURCE_DIR "/docs")) {
    const std::string page = "docs/" + entry.path().filename().string();
    const std::string text = page.ends_with(".md") ? PageText(page) : "";
    const bool elsewhere = text.find("<!-- tested by ") != std::string::npos;
    if (text.find("\n```console\n") != std::string::npos && !elsewhere) pages.push_back(page);
  }
  std::sort(pages.begin(), pages.end());
  return pages;
}

class DocumentedOutput : public DocumentedPage, public testing::WithParamInterface<std::string> {
 protected:
  DocumentedOutput() { Link(MOEPACK_SOURCE_DIR "/build/peer/node_modules", "node_modules"); }
};

TEST_P(DocumentedOutput, MatchesWhatTheCommandsPrint) { RunPage(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Pages, DocumentedOutput, testing::ValuesIn(PagesWithBlocks()),
                         [](const auto& one) { return Replaced(one.param, "[^A-Za-z0-9]", "_"); });

}  // namespace
}  // namespace moepack::cli
