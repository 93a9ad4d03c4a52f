package composite

import "time"

// Bounds of a definition. Compile refuses what is over them.
const (
	MaxDefinition = 1 << 20 // bytes of a definition as YAML, and of all its values as JSON
	MaxSteps      = 100
	MaxTemplate   = 64 << 10 // bytes of a template
	MaxDepth      = 64       // of values in each other, and of what templates nest
	MaxProperties = 10       // levels of properties of an output in each other
	MaxName       = 64       // bytes of the name of a tool and of the ID of a step
	MaxReference  = 256      // bytes of the name by which a step calls a tool
	MaxText       = 8 << 10  // bytes of a description
	MaxTimeout    = 24 * time.Hour
)

// What holds where a definition does not say.
const (
	DefaultTimeout     = 30 * time.Minute // of a run
	DefaultStepTimeout = 5 * time.Minute  // of a step with its retries
	DefaultRetryDelay  = time.Second
)
