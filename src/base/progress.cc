#include "base/progress.h"

namespace cortiq {

Progress& Progress::none() {
  static Progress silent;
  return silent;
}

}  // namespace cortiq
