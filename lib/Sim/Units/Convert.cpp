#include "flamia/Sim/Units/Convert.h"
