// The page that publishes to a registry, run with a local docker-registry.
#include <cstdlib>

#include "tests/remote/support/docker_registry.h"
#include "tests/remote/support/scoped_variable.h"
#include "tests/tools/documents/documented_page.h"

namespace moepack::remote {
namespace {

class DocumentedRegistry : public cli::DocumentedPage {
 protected:
  fixtures::TempDir home_;
  // Nothing from the user's environment.
  ScopedVariable user_{"HOME", home_.path()}, docker_{"DOCKER_CONFIG", home_ / "none"},
      runtime_{"XDG_RUNTIME_DIR", home_ / "none"}, config_{"XDG_CONFIG_HOME", home_ / "none"},
      state_{"XDG_STATE_HOME", ""}, proxy_{"http_proxy", ""}, all_proxy_{"all_proxy", ""};
};

TEST_F(DocumentedRegistry, TheWalkthroughMatchesTheOutputOfItsCommands) {
  if (!DockerRegistry::IsInstalled()) GTEST_SKIP() << "docker-registry is not installed";
  DockerRegistry registry(home_ / "registry");
  ASSERT_TRUE(registry.started()) << registry.Log();
  Stand("localhost:5000", registry.host());
  if (std::system(MOEPACK_SOURCE_DIR "/tests/peer/install.sh") == 0)
    Link(MOEPACK_SOURCE_DIR "/build/peer/node_modules", "node_modules");
  RunPage("docs/registry-walkthrough.md");
}

}  // namespace
}  // namespace moepack::remote
