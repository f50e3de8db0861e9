/* ops/table.h -- all built-in ops. */
#ifndef MR_OPS_TABLE_H
#define MR_OPS_TABLE_H

/* Hands the table of ops to the registry.  Safe to call often and from any thread. */
void mr_ops_register(void);

#endif
