#include "tools/options/link_option.h"

#include <CLI/CLI.hpp>

#include "libshard/base/text/address.h"
#include "libshard/base/text/text.h"
#include "tools/base/output.h"
#include "tools/options/options.h"
#include "tools/options/reference_option.h"

namespace moepack::cli {
namespace {

using manifest::LinkKind;

constexpr LinkKind kLinkKinds[] = {LinkKind::kAuto, LinkKind::kHardlink, LinkKind::kReflink,
                                   LinkKind::kSymlink, LinkKind::kCopy};

}  // namespace

void AddLink(CLI::App& app, std::optional<LinkKind>& link, const LinkHelp& help) {
  const std::vector<std::string> but_last(help.kinds.begin() + 1, help.kinds.end() - 1);
  std::vector<std::pair<std::string, LinkKind>> kinds;
  for (const LinkKind kind : kLinkKinds) kinds.emplace_back(manifest::LinkName(kind), kind);
  // CLI11 runs the transformation that was added last first.
  app.add_option("--link", link,
                 Cat(help.what, ": auto (the default: hardlink, else reflink, else copy), ",
                     moepack::Join(but_last, ", "), " or ", help.kinds.back(), "."))
      ->type_name("KIND")
      ->transform(CLI::Transformer(kinds).description(""))
      ->transform(OneOf(help.kinds));
}

Status CheckLinkUse(const std::optional<LinkKind>& link, const registry::Reference& place) {
  if (link.value_or(LinkKind::kAuto) == LinkKind::kAuto || IsOnThisMachine(place)) return Ok();
  return Error{Code::kInvalidArgument,
               Cat("--link has no effect: ", Shown(WithoutSecrets(ReferenceText(place))),
                   " is on another machine"),
               "leave it out: links are made between directories of this machine"};
}

}  // namespace moepack::cli
