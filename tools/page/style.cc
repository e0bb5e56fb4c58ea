#include "tools/page/style.h"

#include <array>

#include "libshard/base/text/text.h"
#include "tools/page/section.h"

namespace moepack::cli {
namespace {

using Ramp = std::array<const char*, kColourSteps>;

// Sixteen steps of OKLCH (Ottosson, "A perceptual color space for image processing", 2020) with
// even steps of lightness, so that equal steps look equal, in grey too. Light: lightness 0.965 to
// 0.30, hue 110 to 285 degrees. Dark: lightness 0.27 to 0.93, hue 285 to 105.
constexpr Ramp kLight = {"#f5f7cf", "#ddedbb", "#c1e3ac", "#a2d9a3", "#7fce9f", "#59c39f",
                         "#2bb6a1", "#00a7a3", "#0097a3", "#0086a1", "#00759a", "#0c648f",
                         "#245381", "#2c446f", "#2e365b", "#2b2a46"};
constexpr Ramp kDark = {"#24233e", "#272e52", "#243c66", "#194b77", "#005b85", "#006c8f",
                        "#007d95", "#008e97", "#009d95", "#20ab93", "#53b890", "#7ac390",
                        "#9ccd94", "#bbd69e", "#d6e0ad", "#edebc2"};
// Eight hues of the same lightness (0.545; dark 0.76). Neighbours differ for every common kind of
// colour blindness, and nothing is told by colour alone.
constexpr std::array kKindsLight = {"#3871b7", "#a65917", "#1b854f", "#a24f81",
                                    "#876e00", "#00848d", "#7c5dad", "#ad4e51"};
constexpr std::array kKindsDark = {"#7cb4fc", "#ec9c63", "#6dc88f", "#e791c2",
                                   "#c9b04f", "#30c8cf", "#bd9ff2", "#f49191"};

constexpr const char* kLightColours =
    "--paper:#fcfcfa;--ink:#1c2126;--quiet:#57606a;--rule:#dfe3e8;--grid:#e7eaee;--panel:#f4f5f2;"
    "--link:#1f5fae;--on-kind:#ffffff;--on-low:#1c2126;--on-middle:#1c2126;--on-high:#ffffff;";
constexpr const char* kDarkColours =
    "--paper:#14171c;--ink:#e4e8ee;--quiet:#9aa4b2;--rule:#2f353e;--grid:#262b33;--panel:#1b1f26;"
    "--link:#8cbcf7;--on-kind:#14171c;--on-low:#ffffff;--on-middle:#14171c;--on-high:#14171c;";

constexpr const char* kText = R"(
*{box-sizing:border-box}
html{background:var(--paper);color:var(--ink);color-scheme:light dark;scroll-behavior:smooth}
body{margin:0 auto;padding:2.2rem 1.2rem 4rem;max-width:60rem;
font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;
font-variant-numeric:tabular-nums}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 .3rem;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:2.8rem 0 .8rem;padding-top:.9rem;border-top:1px solid var(--rule)}
h2 a{color:inherit;text-decoration:none}h2 a:hover::after{content:" #";color:var(--quiet)}
h3{font-size:1rem;margin:1.6rem 0 .5rem}
p{margin:.5rem 0;max-width:46rem}
a{color:var(--link)}
.sub,figcaption,.quiet{color:var(--quiet)}
.sub{margin:0 0 1.4rem}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;list-style:none;padding:0;margin:1.2rem 0 0}
.findings{background:var(--panel);border:1px solid var(--rule);border-radius:8px;
padding:.9rem 1.2rem .9rem 2.2rem;margin:1rem 0}
.findings li{margin:.28rem 0}
.warnings{border-left:4px solid var(--k1);padding:.2rem 0 .2rem 1rem;margin:1rem 0;
list-style:none;overflow-wrap:anywhere}
figure{margin:.6rem 0 1.2rem}
figcaption{font-size:.87rem;max-width:46rem;margin:.35rem 0}
.picture{overflow-x:auto}
.beside{display:flex;flex-wrap:wrap;gap:1rem 1.6rem}.beside>div{min-width:0;max-width:100%}
.beside figure{max-width:25rem}
svg{display:block;max-width:100%;height:auto}
svg.wide{min-width:36rem}
svg text{font-size:12px;fill:var(--ink)}
svg .quiet{fill:var(--quiet);font-size:11px}svg .strong{font-weight:600}
svg .e{text-anchor:end}svg .m{text-anchor:middle}
svg .on-kind{fill:var(--on-kind);font-size:11px}
svg .on-low{fill:var(--on-low)}svg .on-middle{fill:var(--on-middle)}
svg .on-high{fill:var(--on-high)}
svg .grid{stroke:var(--grid)}svg .mark{stroke:var(--quiet);stroke-dasharray:3 3;opacity:.7}
svg .whisker{stroke:var(--ink);stroke-width:1.5}
svg .range{stroke:var(--quiet);stroke-width:1.5}svg .wide{stroke-width:5;opacity:.6}
svg .ring{stroke:var(--paper);stroke-width:1}
svg .hollow{fill:var(--paper);stroke:var(--quiet);stroke-width:1.2}
svg .dot{fill:var(--paper);stroke:var(--ink);stroke-width:1}
svg .outline{fill:none;stroke:var(--ink);stroke-width:1.6}
svg .halo{fill:none;stroke:var(--paper);stroke-width:4;opacity:.75}
svg .line{fill:none;stroke-width:1.8}svg .before{stroke:var(--quiet);stroke-dasharray:4 3}
svg .after{stroke:var(--k1)}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;list-style:none;padding:0;margin:.4rem 0;
font-size:.87rem}
.scale{gap:.2rem .8rem}
.key{display:inline-block;width:.85rem;height:.85rem;border-radius:2px;margin-right:.4rem;
vertical-align:-.1rem}
.key.round{border-radius:50%}
.key.key-hollow{background:var(--paper);border:1.5px solid var(--quiet);border-radius:50%}
details{margin:.4rem 0}
summary{cursor:pointer;color:var(--link);font-size:.87rem;width:max-content;max-width:100%}
.scroll{overflow:auto;max-height:26rem;border:1px solid var(--rule);border-radius:6px;
margin:.5rem 0}
table{border-collapse:collapse;font-size:.85rem;width:100%}
caption{text-align:left;padding:.5rem .7rem;color:var(--quiet)}
th,td{padding:.25rem .7rem;text-align:left;font-weight:400;white-space:nowrap;
border-top:1px solid var(--grid)}
thead th{position:sticky;top:0;background:var(--panel);font-weight:600;border-top:0}
th.n,td.n{text-align:right}
pre{background:var(--panel);border:1px solid var(--rule);border-radius:6px;padding:.6rem .9rem;
overflow-x:auto;margin:.4rem 0 1rem;font-size:.85rem}
code{font-family:ui-monospace,"SF Mono",Consolas,"DejaVu Sans Mono",monospace}
:focus-visible{outline:2px solid var(--link);outline-offset:2px}
@media print{body{max-width:none;padding:0;font-size:11px}nav,summary{display:none}
h2{break-after:avoid}figure{break-inside:avoid}.picture,.scroll{overflow:visible;max-height:none}
details::details-content{content-visibility:visible}
svg.wide{min-width:0}*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
)";

template <class Colours>
std::string Variables(char letter, const Colours& colours) {
  std::string out;
  for (size_t i = 0; i < colours.size(); ++i) out += Cat("--", letter, i, ":", colours[i], ";");
  return out;
}

// Of shapes in pictures, and of the squares of legends.
std::string Classes(char letter, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = Cat(letter, i);
    out += Cat("svg .", name, "{fill:var(--", name, ")}.key.", name, "{background:var(--", name,
               ")}\n");
  }
  return out;
}

}  // namespace

std::string PageStyle() {
  return Cat(":root{", kLightColours, Variables('c', kLight), Variables('k', kKindsLight), "}\n",
             "@media (prefers-color-scheme:dark){:root{", kDarkColours, Variables('c', kDark),
             Variables('k', kKindsDark), "}}\n", "@media print{:root{", kLightColours,
             Variables('c', kLight), Variables('k', kKindsLight), "}}", kText,
             Classes('c', kLight.size()), Classes('k', kKindsLight.size()));
}

}  // namespace moepack::cli
