#include "tools/options/reference_option.h"

#include "libshard/base/text.h"

namespace moepack::cli {

void AddReference(CLI::App& app, const std::string& name, std::string& text,
                  const std::string& help) {
  app.add_option(
         name, text,
         Cat(help, " A DIR whose own name holds ':' or '@' is written with '/' at its end."))
      ->required();
}

}  // namespace moepack::cli
