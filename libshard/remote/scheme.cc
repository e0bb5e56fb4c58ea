#include "libshard/remote/scheme.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

#define SHARD_LIST_SCHEME(name) &(name),
constexpr const Scheme* kSchemes[] = {SHARD_SCHEMES(SHARD_LIST_SCHEME)};
#undef SHARD_LIST_SCHEME

// A member of the rows that the help offers.
std::string Listed(std::string_view Scheme::*member, std::string_view last) {
  std::vector<std::string> texts;
  for (const Scheme* scheme : kSchemes) {
    if (!scheme->form.empty()) texts.emplace_back(scheme->*member);
  }
  const std::string end = texts.back();
  texts.pop_back();
  return Cat(Join(texts, ", "), " ", last, " ", end);
}

}  // namespace

const Scheme* FindScheme(std::string_view text) {
  const auto* const found =
      std::find_if(std::begin(kSchemes), std::end(kSchemes), [&](const Scheme* scheme) {
        return Lower(text.substr(0, scheme->start.size())) == scheme->start;
      });
  return found == std::end(kSchemes) ? nullptr : *found;
}

std::string MeantAddressHint(const std::string& text) {
  for (const Scheme* scheme : kSchemes) {
    std::string hint = scheme->meant == nullptr ? "" : scheme->meant(text);
    if (!hint.empty()) return hint;
  }
  return "";
}

std::string SchemeStarts() { return Listed(&Scheme::start, "and"); }
std::string AddressForms() { return Listed(&Scheme::form, "or"); }

Result<std::string_view> NameIn(const Scheme& scheme, std::string_view address) {
  const std::string_view name = address.substr(scheme.start.size());
  if (name.substr(0, name.find('/')).find('@') == name.npos) return name;
  // A password in an address must not be repeated in a message.
  return Error{Code::kInvalidArgument,
               Cat(scheme.start, ": expected a name, found a user or password in front of one"),
               "leave it out: keys and tokens come from the environment (docs/remote.md)"};
}

}  // namespace moepack::remote
