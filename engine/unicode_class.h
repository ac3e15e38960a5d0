/* unicode_class.h - what a code point is to the pre-tokenizer: letter, mark, number or space.
 * Source: Unicode 16.0 general categories; the White_Space list of gpt-oss spec section 4.3. */
#ifndef ENGINE_UNICODE_CLASS_H
#define ENGINE_UNICODE_CLASS_H

#include <stdint.h>

enum {
    UC_L = 1,     /* letter */
    UC_UPPER = 2, /* Lu, Lt, Lm, Lo, M: may stand in the first part of a word */
    UC_LOWER = 4, /* Ll, Lm, Lo, M: may stand in the second part of a word */
    UC_N = 8,     /* number */
    UC_SPACE = 16 /* White_Space */
};

/* A union of the bits above; 0 for punctuation, symbols, controls and what is unassigned. */
unsigned unicode_class(uint32_t cp);

#endif
