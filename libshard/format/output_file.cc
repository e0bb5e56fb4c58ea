#include "libshard/format/output_file.h"

namespace moepack {
namespace {

constexpr std::string_view kOverlays = "overlays/";

}  // namespace

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kHead:
      return "head";
    case Role::kTrunk:
      return "trunk";
    case Role::kRouters:
      return "routers";
    case Role::kGroup:
      return "group";
    case Role::kOverlay:
      return "overlay";
    case Role::kRemainder:
      return "remainder";
  }
  return "";
}

std::string OverlayVersionOf(Role role, std::string_view path) {
  const bool overlay = role == Role::kOverlay && path.starts_with(kOverlays);
  if (!overlay) return "";
  path.remove_prefix(kOverlays.size());
  const size_t end = path.find('/');
  return end == path.npos ? "" : std::string(path.substr(0, end));
}

std::string OverlayDirectory(std::string_view version) {
  return std::string(kOverlays).append(version);
}

std::vector<std::string> PathsOf(const std::vector<OutputFile>& files) {
  std::vector<std::string> paths;
  for (const OutputFile& file : files) paths.push_back(file.path);
  return paths;
}

}  // namespace moepack
