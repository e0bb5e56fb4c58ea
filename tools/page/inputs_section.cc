// What the report was made from.
#include "libshard/base/text/text.h"
#include "tools/page/html.h"
#include "tools/page/section.h"

namespace moepack::cli {

std::optional<PageSection> InputsSection(const PageInputs& inputs) {
  HtmlTable table("table-inputs", "Documents, with the SHA-256 of their bytes",
                  {"document", "kind", "SHA-256"});
  for (const PageInput& file : inputs.files) table.Row({file.path, file.kind, file.sha256});
  return PageSection{"inputs", "What this is made from", table.Render()};
}

}  // namespace moepack::cli
