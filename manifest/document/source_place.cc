#include "manifest/document/source_place.h"

#include <algorithm>
#include <cctype>

#include "libshard/base/text/text.h"

namespace moepack::manifest {
namespace {

constexpr std::string_view kHub = "hf://";
constexpr size_t kMaxHubName = 96;

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

bool IsNamePart(std::string_view part) {
  const auto at_end = [](char c) { return c == '-' || c == '.'; };
  return !part.empty() && !at_end(part.front()) && !at_end(part.back()) &&
         part.find("--") == part.npos && part.find("..") == part.npos &&
         std::all_of(part.begin(), part.end(), IsNameCharacter);
}

// The part of a source file's address before its own name; "" without an origin.
std::string PlaceOf(const SourceRecord& source) {
  if (!source.origin) return "";
  const std::string& url = source.origin->url;
  const std::string end = "/" + source.file;
  return url.ends_with(end) ? url.substr(0, url.size() - end.size()) : "";
}

// The place shared by all source files; "" if there is none.
std::string SharedPlace(const ModelRecord& model) {
  if (model.source.empty()) return "";
  std::string place = PlaceOf(model.source.front());
  const bool shared = std::all_of(model.source.begin(), model.source.end(),
                                  [&](const SourceRecord& one) { return PlaceOf(one) == place; });
  return shared ? place : "";
}

// "owner/name" and the part after '@' of "hf://owner/name@commit".
struct HubPlace {
  std::string name, commit;
};
HubPlace ParseHubPlace(std::string_view place) {
  if (!place.starts_with(kHub)) return {};
  place.remove_prefix(kHub.size());
  const size_t at = place.find('@');
  if (at == place.npos) return {};
  const std::string_view commit = place.substr(at + 1);
  const bool top = commit.find('/') == commit.npos;
  if (!top || !IsHubName(place.substr(0, at))) return {};
  return {std::string(place.substr(0, at)), std::string(commit)};
}

}  // namespace

bool IsHubName(std::string_view id) {
  const size_t slash = id.find('/');
  return slash != id.npos && id.size() <= kMaxHubName && IsNamePart(id.substr(0, slash)) &&
         IsNamePart(id.substr(slash + 1));
}

std::string HubRepositoryOf(const ModelRecord& model) {
  return ParseHubPlace(SharedPlace(model)).name;
}

std::string SourceUrlOf(const ModelRecord& model) {
  const std::string place = SharedPlace(model);
  if (!place.starts_with(kHub)) return place;
  const HubPlace hub = ParseHubPlace(place);
  if (hub.name.empty()) return place;
  return Cat("https://huggingface.co/", hub.name, "/tree/", hub.commit);
}

}  // namespace moepack::manifest
