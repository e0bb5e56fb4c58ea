// The page that reads from the Hub, run with a local Hub.
#include "tests/remote/support/fake_hub.h"
#include "tests/remote/support/scoped_variable.h"
#include "tests/tools/documents/documented_page.h"

namespace moepack::remote {
namespace {

class DocumentedHub : public cli::DocumentedPage {
 protected:
  DocumentedHub() {
    hub_.page_size = 100;
    hub_.AddDirectory(MOEPACK_SOURCE_DIR "/fixtures/tiny-moe");
  }
  FakeHub hub_;
  fixtures::TempDir home_;
  ScopedVariable endpoint_{"HF_ENDPOINT", hub_.endpoint()}, hf_home_{"HF_HOME", home_.path()};
};

TEST_F(DocumentedHub, HubToNodeMatchesTheOutputOfItsCommands) { RunPage("docs/hub-to-node.md"); }

}  // namespace
}  // namespace moepack::remote
