package composite

import "time"

// Bounds of a definition. Compile refuses what is over them.
const (
	MaxDefinition = 1 << 20 // bytes of a definition as YAML, and of all its values as JSON
	MaxSteps      = 100
	MaxTemplate   = 64 << 10 // bytes of a template, and of a format of printf
	MaxWidth      = 3        // digits of a width or a precision in a format of printf
	MaxDepth      = 64       // of values in each other, and of what a template nests
	MaxProperties = 10       // levels of properties of an output in each other
	MaxName       = 64       // bytes of the name of a tool and of the ID of a step
	MaxReference  = 256      // bytes of the name by which a step calls a tool
	MaxText       = 8 << 10  // bytes of a description, and of why a tool says that it failed
	MaxTimeout    = 24 * time.Hour
	MaxIterations = 1000 // of a forEach
	MaxParallel   = 50   // iterations of a forEach at once, and calls of a run at once
)

// Bounds of a run. A step that goes over them fails.
const (
	MaxAtOnce    = 10       // steps under way
	MaxRetries   = 10       // of a step; a larger retryCount counts as this
	MaxArguments = 1 << 20  // bytes of the arguments of a run, of those of a call and of an answer to an elicitation
	MaxResult    = 4 << 20  // bytes of the result of a call
	MaxResults   = 16 << 20 // bytes of the results of a run that are kept, and of its own
	MaxMade      = 4 << 20  // bytes that a template makes, or one function in it
	MaxBackoff   = 60       // times the first delay, which the later ones do not exceed
	MaxDigits    = 1000     // bytes of a number

	// A unit of work is a node of a template evaluated once, or 16 bytes that a
	// function of a template reads or makes; it takes less than a microsecond.
	MaxTemplateWork = 4 << 20  // units of one template
	MaxWork         = 64 << 20 // units of all templates of a run
)

// What holds where a definition does not say.
const (
	DefaultTimeout     = 30 * time.Minute // of a run
	DefaultStepTimeout = 5 * time.Minute  // of a step with its retries
	DefaultRetryDelay  = time.Second
	DefaultIterations  = 100
	DefaultParallel    = 10
)
