// The page that leads from the Hub through a registry to nodes, run with a local Hub and a local
// docker-registry.
#include <cstdlib>

#include "tests/remote/support/docker_registry.h"
#include "tests/remote/support/fake_hub.h"
#include "tests/remote/support/scoped_variable.h"
#include "tests/tools/documents/documented_page.h"

namespace moepack::remote {
namespace {

class DocumentedFleet : public cli::DocumentedPage {
 protected:
  DocumentedFleet() {
    hub_.page_size = 100;
    hub_.AddDirectory(MOEPACK_SOURCE_DIR "/fixtures/tiny-moe");
  }
  FakeHub hub_;
  fixtures::TempDir home_;
  // Nothing from the user's environment.
  ScopedVariable endpoint_{"HF_ENDPOINT", hub_.endpoint()}, hub_home_{"HF_HOME", home_.path()},
      user_{"HOME", home_.path()}, docker_{"DOCKER_CONFIG", home_ / "none"},
      runtime_{"XDG_RUNTIME_DIR", home_ / "none"}, config_{"XDG_CONFIG_HOME", home_ / "none"},
      state_{"XDG_STATE_HOME", ""}, proxy_{"http_proxy", ""}, all_proxy_{"all_proxy", ""};
};

TEST_F(DocumentedFleet, FromTheHubToAFleetMatchesTheOutputOfItsCommands) {
  if (!DockerRegistry::IsInstalled()) GTEST_SKIP() << "docker-registry is not installed";
  DockerRegistry registry(home_ / "registry");
  ASSERT_TRUE(registry.started()) << registry.Log();
  Stand("localhost:5000", registry.host());
  if (std::system(MOEPACK_SOURCE_DIR "/tests/peer/install.sh") == 0)
    Link(MOEPACK_SOURCE_DIR "/build/peer/node_modules", "node_modules");
  RunPage("docs/rollout.md");
}

}  // namespace
}  // namespace moepack::remote
